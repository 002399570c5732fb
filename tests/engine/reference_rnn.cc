#include "tests/engine/reference_rnn.h"

#include <algorithm>
#include <cmath>

#include "network/params_layout.h"
#include "tests/engine/philox.h"

namespace rnn {
namespace reference {

namespace {

// Of cells that have no others.
constexpr int kOnlyGate = 0;

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

}  // namespace

CellOutput CellForward(CellMode mode, const CellInput& in) {
  CellOutput out;
  switch (mode) {
    case CellMode::kRelu: {
      const double sum = in.w_x[kOnlyGate] + in.r_h[kOnlyGate];
      out.h = sum < 0 ? 0 : sum;  // NaN stays NaN
      break;
    }
    case CellMode::kTanh:
      out.h = std::tanh(in.w_x[kOnlyGate] + in.r_h[kOnlyGate]);
      break;
    case CellMode::kLstm: {
      const auto sum = [&](LstmGate gate) {
        return in.w_x[gate] + in.r_h[gate];
      };
      const double i = out.gates[kInput] = Sigmoid(sum(kInput));
      const double f = out.gates[kForget] = Sigmoid(sum(kForget));
      const double g = out.gates[kCell] = std::tanh(sum(kCell));
      const double o = out.gates[kOutput] = Sigmoid(sum(kOutput));
      out.c = f * in.c + i * g;
      out.h = o * std::tanh(out.c);
      break;
    }
    case CellMode::kGru: {
      const double r = out.gates[kReset] =
          Sigmoid(in.w_x[kReset] + in.r_h[kReset]);
      const double z = out.gates[kUpdate] =
          Sigmoid(in.w_x[kUpdate] + in.r_h[kUpdate]);
      out.q = in.r_h[kNew];
      const double n = out.gates[kNew] = std::tanh(in.w_x[kNew] + r * out.q);
      out.h = (1 - z) * n + z * in.h;
      break;
    }
  }
  return out;
}

CellGradient CellBackward(CellMode mode, const CellInput& in,
                          const CellOutput& out, double dh, double dc) {
  CellGradient gradient;
  switch (mode) {
    case CellMode::kRelu:
      gradient.w_x[kOnlyGate] = out.h > 0 ? dh : 0;
      gradient.r_h = gradient.w_x;
      break;
    case CellMode::kTanh:
      gradient.w_x[kOnlyGate] = dh * (1 - out.h * out.h);
      gradient.r_h = gradient.w_x;
      break;
    case CellMode::kLstm: {
      const double i = out.gates[kInput], f = out.gates[kForget];
      const double g = out.gates[kCell], o = out.gates[kOutput];
      const double tanh_c = std::tanh(out.c);
      const double dc_total = dc + dh * o * (1 - tanh_c * tanh_c);
      gradient.w_x[kInput] = dc_total * g * i * (1 - i);
      gradient.w_x[kForget] = dc_total * in.c * f * (1 - f);
      gradient.w_x[kCell] = dc_total * i * (1 - g * g);
      gradient.w_x[kOutput] = dh * tanh_c * o * (1 - o);
      gradient.r_h = gradient.w_x;
      gradient.c = dc_total * f;
      break;
    }
    case CellMode::kGru: {
      const double r = out.gates[kReset], z = out.gates[kUpdate];
      const double n = out.gates[kNew];
      const double dn = dh * (1 - z) * (1 - n * n);
      gradient.w_x[kReset] = dn * out.q * r * (1 - r);
      gradient.w_x[kUpdate] = dh * (in.h - n) * z * (1 - z);
      gradient.w_x[kNew] = dn;
      gradient.r_h = gradient.w_x;
      gradient.r_h[kNew] *= r;
      gradient.h = dh * z;
      break;
    }
  }
  return gradient;
}

namespace {

// Row-major [rows, columns], at an offset of a vector.
struct Matrix {
  Region region;
  double At(const Vector& values, int64_t row, int64_t column) const {
    return values[region.offset + row * region.columns + column];
  }
  double& At(Vector& values, int64_t row, int64_t column) const {
    return values[region.offset + row * region.columns + column];
  }
};

class Rnn {
 public:
  explicit Rnn(const Problem& problem)
      : p_(problem),
        d_(problem.descriptor),
        T_(problem.max_time),
        B_(problem.batch()),
        H_(d_.hidden_size),
        P_(d_.output_size()),
        D_(d_.num_directions) {
    // A bad descriptor leaves the layout empty, and the first access fails.
    (void)ParamsLayout::Create(d_, &layout_).ok();
  }

  Result Run() {
    Result result;
    result.outputs = Forward();
    result.gradients = Backward();
    return result;
  }

  Outputs Forward() {
    Outputs out;
    out.h_n = p_.h0;
    out.c_n = p_.c0;
    layer_inputs_.push_back(p_.x);
    tape_.resize(d_.num_pseudo_layers() * T_ * B_ * H_);
    h_before_.resize(d_.num_pseudo_layers() * T_ * B_ * P_);
    if (d_.has_projection()) m_.resize(tape_.size());
    for (int64_t layer = 0; layer < d_.num_layers; ++layer) {
      Vector y(T_ * B_ * D_ * P_);
      for (int64_t direction = 0; direction < D_; ++direction) {
        for (int64_t b = 0; b < B_; ++b) {
          RunRow(layer, direction, b, &y, &out);
        }
      }
      if (layer == d_.num_layers - 1) {
        out.y = y;
      } else {
        layer_inputs_.push_back(Dropped(layer, y));
      }
    }
    return out;
  }

  Gradients Backward() {
    Gradients out;
    out.dparams.resize(p_.params.size());
    out.dh0.resize(p_.h0.size());
    out.dc0.resize(p_.c0.size());
    Vector dy = p_.dy;
    for (int64_t layer = d_.num_layers - 1; layer >= 0; --layer) {
      Vector dx(T_ * B_ * d_.layer_input_size(layer));
      for (int64_t direction = 0; direction < D_; ++direction) {
        for (int64_t b = 0; b < B_; ++b) {
          RunRowBackward(layer, direction, b, dy, &dx, &out);
        }
      }
      dy = layer > 0 ? Dropped(layer - 1, dx) : dx;
    }
    out.dx = dy;
    return out;
  }

 private:
  struct Weights {
    Matrix W, R, projection, bW, bR;
  };
  Weights WeightsOf(int64_t k) const {
    return {{layout_.InputWeights(k)},
            {layout_.RecurrentWeights(k)},
            {layout_.Projection(k)},
            {layout_.InputBias(k)},
            {layout_.RecurrentBias(k)}};
  }

  // Index of a step of a pseudo-layer.
  int64_t Step(int64_t k, int64_t t, int64_t b) const {
    return (k * T_ + t) * B_ + b;
  }
  int64_t Time(int64_t direction, int64_t step, int64_t b) const {
    return direction == 0 ? step : p_.lengths[b] - 1 - step;
  }

  // The dropout behind `layer`, of its outputs or of their gradients: linear,
  // so the same.
  Vector Dropped(int64_t layer, Vector values) const {
    if (!p_.apply_dropout || d_.dropout == 0) return values;
    const double threshold =
        std::floor(static_cast<double>(d_.dropout) * std::ldexp(1.0, 32));
    for (int64_t t = 0; t < T_; ++t) {
      for (int64_t b = 0; b < B_; ++b) {
        for (int64_t j = 0; j < D_ * P_; ++j) {
          const uint32_t word = Philox4x32(
              {static_cast<uint32_t>(j / 4), static_cast<uint32_t>(b),
               static_cast<uint32_t>(t), static_cast<uint32_t>(layer)},
              p_.dropout_key)[j % 4];
          double& value = values[(t * B_ + b) * D_ * P_ + j];
          value = word >= threshold ? value / (1 - double{d_.dropout}) : 0;
        }
      }
    }
    return values;
  }

  // Adds the products of the weights of a hidden unit and `values` to `sums`,
  // for each gate one after another. The gates go side by side, or most of the
  // time would be spent on waiting for the addition before.
  void AddProducts(const Matrix& weights, int64_t u, const double* values,
                   Gates* sums) const {
    std::array<const double*, kMaxGates> rows;
    for (int gate = 0; gate < kMaxGates; ++gate) {
      // Of a gate that there is not: any row.
      const int64_t row = gate < d_.num_gates() ? gate * H_ + u : u;
      rows[gate] = p_.params.data() + weights.region.offset +
                   row * weights.region.columns;
    }
    Gates added = *sums;
    for (int64_t j = 0; j < weights.region.columns; ++j) {
      for (int gate = 0; gate < kMaxGates; ++gate) {
        added[gate] += rows[gate][j] * values[j];
      }
    }
    for (int gate = 0; gate < d_.num_gates(); ++gate) {
      (*sums)[gate] = added[gate];
    }
  }

  void RunRow(int64_t layer, int64_t direction, int64_t b, Vector* y,
              Outputs* out) {
    const int64_t k = layer * D_ + direction;
    const Weights w = WeightsOf(k);
    const int64_t in = d_.layer_input_size(layer);
    const Vector& x = layer_inputs_[layer];
    double* h = &out->h_n[(k * B_ + b) * P_];
    Vector c(H_);
    const bool has_c = d_.mode == CellMode::kLstm;
    if (has_c) {
      for (int64_t u = 0; u < H_; ++u) c[u] = p_.c0[(k * B_ + b) * H_ + u];
    }
    // The cell state is rounded where it is stored, but not between steps.
    Vector c_stored = c;
    for (int64_t step = 0; step < p_.lengths[b]; ++step) {
      const int64_t t = Time(direction, step, b);
      const double* x_row = &x[(t * B_ + b) * in];
      for (int64_t j = 0; j < P_; ++j) {
        h_before_[Step(k, t, b) * P_ + j] = h[j];
      }
      Vector m(H_);
      for (int64_t u = 0; u < H_; ++u) {
        CellInput input;
        for (int gate = 0; gate < d_.num_gates(); ++gate) {
          const int64_t row = gate * H_ + u;
          input.w_x[gate] = w.bW.At(p_.params, row, 0);
          if (!d_.has_input_weights(layer)) input.w_x[gate] += x_row[u];
          input.r_h[gate] = w.bR.At(p_.params, row, 0);
        }
        if (d_.has_input_weights(layer)) {
          AddProducts(w.W, u, x_row, &input.w_x);
        }
        AddProducts(w.R, u, h, &input.r_h);
        input.h = d_.mode == CellMode::kGru ? h[u] : 0;
        input.c = c[u];
        CellOutput output = CellForward(d_.mode, input);
        if (d_.mode == CellMode::kRelu) {
          out->nearest_kink =
              std::min(out->nearest_kink,
                       std::abs(input.w_x[kOnlyGate] + input.r_h[kOnlyGate]));
        }
        m[u] = output.h;
        c[u] = output.c;

        Saved& saved = tape_[Step(k, t, b) * H_ + u];
        for (double& gate : output.gates) gate = p_.round(gate);
        output.q = p_.round(output.q);
        output.c = p_.round(output.c);
        output.h = p_.round(output.h);
        saved.output = output;
        saved.input.h = input.h;
        saved.input.c = c_stored[u];
        c_stored[u] = output.c;
        if (d_.has_projection()) {  // of the LSTM alone
          m_[Step(k, t, b) * H_ + u] =
              output.gates[kOutput] * std::tanh(output.c);
        }
      }
      for (int64_t j = 0; j < P_; ++j) {
        double value = m[j];
        if (d_.has_projection()) {
          value = 0;
          for (int64_t u = 0; u < H_; ++u) {
            value += w.projection.At(p_.params, j, u) * m[u];
          }
        }
        h[j] = p_.round(value);
        (*y)[(t * B_ + b) * D_ * P_ + direction * P_ + j] = h[j];
      }
    }
    if (has_c) {
      for (int64_t u = 0; u < H_; ++u) {
        out->c_n[(k * B_ + b) * H_ + u] = p_.round(c[u]);
      }
    }
  }

  void RunRowBackward(int64_t layer, int64_t direction, int64_t b,
                      const Vector& dy, Vector* dx, Gradients* out) {
    const int64_t k = layer * D_ + direction;
    const Weights w = WeightsOf(k);
    const int64_t in = d_.layer_input_size(layer);
    const Vector& x = layer_inputs_[layer];
    const bool has_c = d_.mode == CellMode::kLstm;
    Vector dh(P_), dc(H_);
    for (int64_t j = 0; j < P_; ++j) dh[j] = p_.dh_n[(k * B_ + b) * P_ + j];
    for (int64_t u = 0; u < H_ && has_c; ++u) {
      dc[u] = p_.dc_n[(k * B_ + b) * H_ + u];
    }
    Vector& dparams = out->dparams;
    for (int64_t step = p_.lengths[b] - 1; step >= 0; --step) {
      const int64_t t = Time(direction, step, b);
      const double* x_row = &x[(t * B_ + b) * in];
      double* dx_row = &(*dx)[(t * B_ + b) * in];
      const double* h_before = &h_before_[Step(k, t, b) * P_];
      for (int64_t j = 0; j < P_; ++j) {
        dh[j] += dy[(t * B_ + b) * D_ * P_ + direction * P_ + j];
      }
      Vector dm(H_);
      for (int64_t u = 0; u < H_; ++u) {
        if (!d_.has_projection()) {
          dm[u] = dh[u];
          continue;
        }
        for (int64_t j = 0; j < P_; ++j) {
          dm[u] += w.projection.At(p_.params, j, u) * dh[j];
          w.projection.At(dparams, j, u) += dh[j] * m_[Step(k, t, b) * H_ + u];
        }
      }
      Vector dh_before(P_);
      for (int64_t u = 0; u < H_; ++u) {
        const Saved& saved = tape_[Step(k, t, b) * H_ + u];
        const CellGradient gradient =
            CellBackward(d_.mode, saved.input, saved.output, dm[u], dc[u]);
        dc[u] = gradient.c;
        if (d_.mode == CellMode::kGru) dh_before[u] += gradient.h;
        for (int gate = 0; gate < d_.num_gates(); ++gate) {
          const int64_t row = gate * H_ + u;
          const double dw_x = gradient.w_x[gate];
          const double dr_h = gradient.r_h[gate];
          w.bW.At(dparams, row, 0) += dw_x;
          w.bR.At(dparams, row, 0) += dr_h;
          if (d_.has_input_weights(layer)) {
            for (int64_t j = 0; j < in; ++j) {
              w.W.At(dparams, row, j) += dw_x * x_row[j];
              dx_row[j] += dw_x * w.W.At(p_.params, row, j);
            }
          } else {
            dx_row[u] += dw_x;
          }
          for (int64_t j = 0; j < P_; ++j) {
            w.R.At(dparams, row, j) += dr_h * h_before[j];
            dh_before[j] += dr_h * w.R.At(p_.params, row, j);
          }
        }
      }
      dh = dh_before;
    }
    for (int64_t j = 0; j < P_; ++j) out->dh0[(k * B_ + b) * P_ + j] = dh[j];
    for (int64_t u = 0; u < H_ && has_c; ++u) {
      out->dc0[(k * B_ + b) * H_ + u] = dc[u];
    }
  }

  struct Saved {
    CellInput input;  // its h and c
    CellOutput output;
  };

  const Problem& p_;
  const RnnDescriptor& d_;
  const int64_t T_, B_, H_, P_, D_;
  ParamsLayout layout_;
  std::vector<Vector> layer_inputs_;  // after dropout
  // By Step().
  std::vector<Saved> tape_;  // [.., H]
  Vector h_before_;          // [.., P]
  Vector m_;                 // [.., H], what is projected
};

}  // namespace

Result Run(const Problem& problem) { return Rnn(problem).Run(); }

double Loss(const Problem& problem) {
  const Outputs out = Rnn(problem).Forward();
  double loss = 0;
  const auto add = [&](const Vector& values, const Vector& weights) {
    for (size_t i = 0; i < values.size(); ++i) loss += values[i] * weights[i];
  };
  add(out.y, problem.dy);
  add(out.h_n, problem.dh_n);
  add(out.c_n, problem.dc_n);
  return loss;
}

}  // namespace reference
}  // namespace rnn
