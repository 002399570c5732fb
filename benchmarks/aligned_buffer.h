// Memory that is aligned, and as little initialised as TensorFlow's.
#ifndef BENCHMARKS_ALIGNED_BUFFER_H_
#define BENCHMARKS_ALIGNED_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace rnn {

// `size` values, the first at a multiple of kAlignment bytes.
template <typename Value, size_t kAlignment>
class AlignedBuffer {
 public:
  explicit AlignedBuffer(int64_t size)
      : size_(size),
        values_(static_cast<Value*>(::operator new(
            size * sizeof(Value), std::align_val_t{kAlignment}))) {}

  Value* data() const { return values_.get(); }
  int64_t size() const { return size_; }

 private:
  struct Delete {
    void operator()(Value* values) const {
      ::operator delete(values, std::align_val_t{kAlignment});
    }
  };
  int64_t size_;
  std::unique_ptr<Value, Delete> values_;
};

// Aligned as TensorFlow aligns tensors.
template <typename Value>
using TensorBuffer = AlignedBuffer<Value, 64>;

}  // namespace rnn

#endif  // BENCHMARKS_ALIGNED_BUFFER_H_
