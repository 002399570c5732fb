"""Writes kernels/engine/simd/activation_tables.h: polynomials for the activations.

    python3 tools/activation_tables.py > kernels/engine/simd/activation_tables.h

Each polynomial goes through its function at Chebyshev's points of the interval, which is close to
the best there is. All is computed with 60 digits, so that every machine writes the same file.
"""

import decimal
import math
from decimal import Decimal

_PIECES = 32
_SIGMOID_DEGREE = 5
_TANH_DEGREE = 5
_FLOAT_TERMS = 5
_DOUBLE_TERMS = 10

_HEADER = f"""\
// The activations' polynomials. Written by tools/activation_tables.py.
// clang-format off: it would give each number a line.
#ifndef KERNELS_ENGINE_SIMD_ACTIVATION_TABLES_H_
#define KERNELS_ENGINE_SIMD_ACTIVATION_TABLES_H_

namespace rnn {{

inline constexpr int kActivationPieces = {_PIECES};
"""

_EXPM1_COMMENT = """\
// q with exp(x) - 1 = x + x^2 q(x), |x| <= ln 2 / 2: coefficients of the powers
// of x, lowest first."""
_SIGMOID_COMMENT = """\
// sigmoid(-x), x >= 0. Piece p: |x - p / 2| <= 1 / 4. Coefficients of the powers
// of the distance to a piece's center, lowest first, of all pieces."""
_TANH_COMMENT = """\
// tanh(x), x >= 0: coefficients as in kSigmoidPieces. Pieces are the quarters of
// each power of two from 1/16 to 16, piece (4 * biased exponent + quarter) % 32;
// the first one begins at 0."""

_FOOTER = """
}  // namespace rnn

#endif  // KERNELS_ENGINE_SIMD_ACTIVATION_TABLES_H_
"""


def _sigmoid_of_minus(x: Decimal) -> Decimal:
    return 1 / (1 + x.exp())


def _expm1_rest(x: Decimal) -> Decimal:
    return (x.exp() - 1 - x) / (x * x)


def _tanh(x: Decimal) -> Decimal:
    e = (2 * x).exp()
    return (e - 1) / (e + 1)


def _solve(rows: list[list[Decimal]]) -> list[Decimal]:
    """Solves a linear system, each row of which ends with its right side."""
    size = len(rows)
    for i in range(size):
        pivot = max(range(i, size), key=lambda j: abs(rows[j][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for j in range(size):
            if j != i:
                factor = rows[j][i] / rows[i][i]
                rows[j] = [a - factor * b for a, b in zip(rows[j], rows[i], strict=True)]
    return [rows[i][size] / rows[i][i] for i in range(size)]


def _fit(function, begin: Decimal, end: Decimal, center: Decimal, powers: list[int]):
    """Finds the coefficients, by power of x - center, for function(x) on [begin, end]."""
    rows = []
    for i in range(len(powers)):
        node = Decimal(math.cos(math.pi * (2 * i + 1) / (2 * len(powers))))
        x = (begin + end) / 2 + (end - begin) / 2 * node
        rows.append([(x - center) ** power for power in powers] + [function(x)])
    return dict(zip(powers, _solve(rows), strict=True))


def _expm1_series(terms: int) -> list[Decimal]:
    """Lists the coefficients, as _EXPM1_COMMENT says."""
    end = Decimal(2).ln() / 2
    return list(_fit(_expm1_rest, -end, end, Decimal(0), list(range(terms))).values())


def _sigmoid_pieces():
    """Yields the center and the polynomial of each piece, as _SIGMOID_COMMENT says."""
    powers = list(range(_SIGMOID_DEGREE + 1))
    for piece in range(_PIECES):
        center = Decimal(piece) / 2
        begin = max(center - Decimal("0.25"), Decimal(0))
        yield center, _fit(_sigmoid_of_minus, begin, center + Decimal("0.25"), center, powers)


def _tanh_pieces():
    """Lists the center and the polynomial of each piece, as _TANH_COMMENT says."""
    pieces = {}
    for exponent in range(-4, 4):
        for quarter in range(4):
            power = Decimal(2) ** exponent
            begin, end = power * (4 + quarter) / 4, power * (5 + quarter) / 4
            if exponent == -4 and quarter == 0:
                # Odd, and so accurate down to 0.
                center, begin, powers = Decimal(0), Decimal("1e-9"), [1, 3, 5]
            else:
                center, powers = (begin + end) / 2, list(range(_TANH_DEGREE + 1))
            place = (exponent + 127) % 8 * 4 + quarter
            pieces[place] = center, _fit(_tanh, begin, end, center, powers)
    return [pieces[place] for place in range(_PIECES)]


def _array(values: list[Decimal], type_="float") -> str:
    words = [_literal(value) if type_ == "float" else repr(float(value)) for value in values]
    lines, line = [], "    {"
    for i, word in enumerate(words):
        word += "}," if i == len(words) - 1 else ","
        if len(line) + 1 + len(word) > 80:
            lines.append(line)
            line = "     " + word
        else:
            line += word if line.endswith("{") else " " + word
    return "\n".join([*lines, line])


def _literal(value: Decimal) -> str:
    text = f"{float(value):.9g}"
    return text + "f" if "." in text or "e" in text else text + ".0f"


def _vector(declaration: str, values: list[Decimal], type_="float") -> str:
    lines = _array(values, type_).replace("    {", "     ").removesuffix("},")
    return f"{declaration} = {{\n{lines}}};"


def _table(name: str, comment: str, pieces, degree: int) -> str:
    rows = [
        _array([polynomial.get(power, Decimal(0)) for _, polynomial in pieces])
        for power in range(degree + 1)
    ]
    declaration = f"alignas(64) inline constexpr float {name}[{degree + 1}][kActivationPieces]"
    return "\n".join(["", comment, f"{declaration} = {{", *rows]) + "};"


def main():
    """Writes the header to the standard output."""
    decimal.getcontext().prec = 60
    sigmoid = list(_sigmoid_pieces())
    tanh = list(_tanh_pieces())
    print(_HEADER.rstrip())
    print(f"\n{_EXPM1_COMMENT}")
    for name, terms in ("float", _FLOAT_TERMS), ("double", _DOUBLE_TERMS):
        declaration = f"inline constexpr {name} k{name.capitalize()}Expm1Series[{terms}]"
        print(_vector(declaration, _expm1_series(terms), name))
    print(_table("kSigmoidPieces", _SIGMOID_COMMENT, sigmoid, _SIGMOID_DEGREE))
    print(_table("kTanhPieces", _TANH_COMMENT, tanh, _TANH_DEGREE))
    declaration = "alignas(64) inline constexpr float kTanhCenters[kActivationPieces]"
    print(_vector(declaration, [center for center, _ in tanh]))
    print(_FOOTER.rstrip())


if __name__ == "__main__":
    main()
