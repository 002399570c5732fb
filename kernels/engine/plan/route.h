// How the right operand of a product comes to the micro-kernels.
#ifndef KERNELS_ENGINE_PLAN_ROUTE_H_
#define KERNELS_ENGINE_PLAN_ROUTE_H_

namespace rnn {

// Not every route comes to every operand. What the passes rely on, and abort
// without:
//
//   W              any; backward none from dot panels
//   R              as W, but never in parts; kPackedInTurn for one step alone:
//                  several steps find R as the first one found it
//   projection     kPacked or kInt8
//   in gradients   kPacked or kParts
//   of weights
//
// In parts are operands that are float alone; in place, and in dot panels,
// those alone that tensors hold. What comes in place must lie so: rows of B are
// rows of memory forward in Keras' order and backward in that of params, and
// columns of B the other way round. Weights in int8 all come along kInt8, and
// no others.
enum class Route {
  kPacked,          // in panels, once for all products that use it
  kPackedInTurn,    // panel by panel, by the one product that uses it
  kParts,           // as kPacked, floats in three bfloat16 parts
  kRowsInPlace,     // its rows are rows of memory: read from end to end
  kColumnsInPlace,  // its columns are rows of memory: dot products
  kInt8,            // so are they, in int8
  kDotPanels,       // packed, with the bits of kColumnsInPlace
};

struct RouteTraits {
  const char* name;  // as the log of plans has it
  // It is read where tensors hold it, and nothing is packed.
  bool is_in_place;
  // Products with B are made by ranges of its columns (MultiplyColumns()), not
  // by the panels of a packed one. Steps make those with R before their cells.
  bool is_by_column_ranges;
};

constexpr RouteTraits TraitsOf(Route route) {
  switch (route) {
    case Route::kPacked:
      return {"packed", false, false};
    case Route::kPackedInTurn:
      return {"packed_in_turn", false, false};
    case Route::kParts:
      return {"parts", false, false};
    case Route::kRowsInPlace:
      return {"rows_in_place", true, true};
    case Route::kColumnsInPlace:
      return {"columns_in_place", true, true};
    case Route::kInt8:
      return {"int8", true, true};
    case Route::kDotPanels:
      return {"dot_panels", false, true};
  }
  return {"", false, false};
}

constexpr const char* RouteName(Route route) { return TraitsOf(route).name; }
constexpr bool IsInParts(Route route) { return route == Route::kParts; }
constexpr bool IsInTurn(Route route) { return route == Route::kPackedInTurn; }
constexpr bool IsInPlace(Route route) { return TraitsOf(route).is_in_place; }
constexpr bool MultipliesColumnRanges(Route route) {
  return TraitsOf(route).is_by_column_ranges;
}

}  // namespace rnn

#endif  // KERNELS_ENGINE_PLAN_ROUTE_H_
