// A C++ locale in which streams write numbers otherwise. (C's, which
// setlocale() sets, would have to be installed.)
#ifndef TESTS_ENGINE_COMMA_LOCALE_H_
#define TESTS_ENGINE_COMMA_LOCALE_H_

#include <locale>
#include <string>

namespace rnn {

// While it lives, the process's C++ locale writes 1234.5 as 1.234,5.
class CommaLocale {
 public:
  CommaLocale()
      : before_(std::locale::global(
            std::locale(std::locale::classic(), new Numbers))) {}
  ~CommaLocale() { std::locale::global(before_); }
  CommaLocale(const CommaLocale&) = delete;
  CommaLocale& operator=(const CommaLocale&) = delete;

 private:
  class Numbers : public std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\3"; }
  };

  const std::locale before_;
};

}  // namespace rnn

#endif  // TESTS_ENGINE_COMMA_LOCALE_H_
