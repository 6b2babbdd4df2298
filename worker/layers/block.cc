#include "worker/layers/block.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/model/model_layout.h"
#include "proto/model.pb.h"
#include "worker/backend/backend.h"
#include "worker/backend/views.h"
#include "worker/layers/activation.h"
#include "worker/layers/dropout.h"
#include "worker/layers/flatten.h"
#include "worker/layers/layer.h"
#include "worker/layers/linear.h"
#include "worker/layers/pass_context.h"

namespace sangam {
namespace {

using Shape = std::vector<uint64_t>;

// Pieces of a state's memory begin at a multiple of this, in floats: one cache line.
constexpr int64_t kPieceAlignment = 16;

template <typename Dimensions>
std::string ShapeText(const Dimensions& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ","), "]");
}

int64_t Elements(const Shape& shape) {
  uint64_t elements = 1;
  for (const uint64_t dimension : shape) elements *= dimension;
  return static_cast<int64_t>(elements);
}

// Makes the layers of one block and looks up their parameters.
class LayerFactory {
 public:
  LayerFactory(const v1::BlockSpec& spec, const v1::BlockLayout& layout,
               const v1::SegmentLayout* segment, uint32_t first_layer)
      : spec_(spec), layout_(layout), segment_(segment), first_layer_(first_layer) {}

  // Errors: InvalidArgument  the layers do not fit the layout
  absl::StatusOr<std::vector<std::unique_ptr<Layer>>> MakeLayers() {
    const Shape input_shape(layout_.input_shape().begin(), layout_.input_shape().end());
    ASSIGN_OR_RETURN(const std::vector<Shape> shapes, LayerOutputShapes(spec_, input_shape));
    const Shape& output_shape = shapes.empty() ? input_shape : shapes.back();
    if (Shape(layout_.output_shape().begin(), layout_.output_shape().end()) != output_shape) {
      return Fault(absl::StrCat("the layout says output ", ShapeText(layout_.output_shape()),
                                ", the layers give ", ShapeText(output_shape)));
    }
    std::vector<std::unique_ptr<Layer>> layers;
    for (int i = 0; i < spec_.layer_size(); ++i) {
      const int64_t in = Elements(i == 0 ? input_shape : shapes[static_cast<size_t>(i) - 1]);
      const int64_t out = Elements(shapes[static_cast<size_t>(i)]);
      const bool then_relu = i + 1 < spec_.layer_size() && spec_.layer(i + 1).has_relu();
      if (spec_.layer(i).has_linear()) {
        ASSIGN_OR_RETURN(std::unique_ptr<Layer> linear, MakeLinear(i, in, out, then_relu));
        layers.push_back(std::move(linear));
        if (then_relu) ++i;
        continue;
      }
      ASSIGN_OR_RETURN(std::unique_ptr<Layer> layer, MakeOther(i, in));
      layers.push_back(std::move(layer));
    }
    const int expected = segment_ == nullptr ? 0 : segment_->parameter_size();
    if (parameters_used_ != expected) {
      return Fault(absl::StrCat("the layout has ", expected, " parameters, the layers use ",
                                parameters_used_));
    }
    return layers;
  }

 private:
  absl::Status Fault(absl::string_view message) const {
    return absl::InvalidArgumentError(absl::StrCat("block \"", layout_.name(), "\": ", message));
  }

  absl::StatusOr<std::unique_ptr<Layer>> MakeLinear(int index, int64_t in, int64_t out, bool relu) {
    LinearLayer::Options options;
    options.in_features = in;
    options.out_features = out;
    options.relu = relu;
    const Shape weight_shape = {static_cast<uint64_t>(out), static_cast<uint64_t>(in)};
    ASSIGN_OR_RETURN(options.weight_offset, ParameterOffset(index, "weight", weight_shape));
    if (!spec_.layer(index).linear().no_bias()) {
      const Shape bias_shape = {static_cast<uint64_t>(out)};
      ASSIGN_OR_RETURN(options.bias_offset, ParameterOffset(index, "bias", bias_shape));
    }
    return std::make_unique<LinearLayer>(options);
  }

  absl::StatusOr<std::unique_ptr<Layer>> MakeOther(int index, int64_t size) const {
    const v1::LayerSpec& layer = spec_.layer(index);
    switch (layer.kind_case()) {
      case v1::LayerSpec::kRelu:
        return std::make_unique<ActivationLayer>(Activation::kRelu, size);
      case v1::LayerSpec::kGelu:
        return std::make_unique<ActivationLayer>(Activation::kGelu, size);
      case v1::LayerSpec::kTanh:
        return std::make_unique<ActivationLayer>(Activation::kTanh, size);
      case v1::LayerSpec::kFlatten:
        return std::make_unique<FlattenLayer>();
      case v1::LayerSpec::kDropout: {
        DropoutLayer::Options options;
        options.rate = layer.dropout().rate();
        options.size = size;
        options.layer = first_layer_ + static_cast<uint32_t>(index);
        return std::make_unique<DropoutLayer>(options);
      }
      case v1::LayerSpec::kLinear:
      case v1::LayerSpec::KIND_NOT_SET:
        break;
    }
    return Fault(absl::StrCat("layer ", index, " is of no kind that can be computed"));
  }

  // First element of a parameter within the segment.
  absl::StatusOr<int64_t> ParameterOffset(int index, absl::string_view role, const Shape& shape) {
    const std::string name = absl::StrCat(layout_.name(), ".", index, ".", role);
    const int count = segment_ == nullptr ? 0 : segment_->parameter_size();
    for (int i = 0; i < count; ++i) {
      const v1::ParameterLayout& parameter = segment_->parameter(i);
      if (parameter.name() != name) continue;
      const auto elements = static_cast<uint64_t>(Elements(shape));
      if (Shape(parameter.shape().begin(), parameter.shape().end()) != shape ||
          parameter.element_count() != elements) {
        return Fault(absl::StrCat("parameter ", name, " has shape ", ShapeText(parameter.shape()),
                                  ", expected ", ShapeText(shape)));
      }
      if (parameter.offset() > segment_->element_count() ||
          elements > segment_->element_count() - parameter.offset()) {
        return Fault(absl::StrCat("parameter ", name, " ends beyond its segment of ",
                                  segment_->element_count(), " elements"));
      }
      ++parameters_used_;
      return static_cast<int64_t>(parameter.offset());
    }
    return Fault(absl::StrCat("the layout has no parameter ", name));
  }

  const v1::BlockSpec& spec_;
  const v1::BlockLayout& layout_;
  const v1::SegmentLayout* segment_;
  uint32_t first_layer_;
  int parameters_used_ = 0;
};

class State : public BlockState {
 public:
  const void* owner = nullptr;
  uint64_t max_rows = 0;
  std::unique_ptr<BackendMemory> memory;
  std::vector<LayerState> layers;
  // Rows of the pass that may go back; -1: none.
  int64_t rows_in_flight = -1;
};

}  // namespace

struct Block::Impl {
  std::string name;
  std::vector<std::unique_ptr<Layer>> layers;
  int64_t input_size = 0;
  int64_t output_size = 0;
  bool has_parameters = false;
  // First of `layers` with parameters; their number when there is none.
  size_t first_with_parameters = 0;

  absl::Status Fault(absl::string_view message) const {
    return absl::InvalidArgumentError(absl::StrCat("block \"", name, "\": ", message));
  }

  // The state as ours.
  absl::StatusOr<State*> Own(BlockState* state) const {
    auto* own = dynamic_cast<State*>(state);
    if (own == nullptr || own->owner != this) return Fault("the state is of another block");
    return own;
  }

  absl::Status CheckMatrix(absl::string_view what, ConstMatrix matrix, int64_t rows,
                           int64_t cols) const {
    if (matrix.rows == rows && matrix.cols == cols) return absl::OkStatus();
    return Fault(absl::StrCat(what, " is [", matrix.rows, ", ", matrix.cols, "], expected [", rows,
                              ", ", cols, "]"));
  }
};

Block::Block(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Block::~Block() = default;

absl::StatusOr<std::unique_ptr<Block>> Block::Create(const v1::BlockSpec& spec,
                                                     const v1::BlockLayout& layout,
                                                     const v1::SegmentLayout* segment,
                                                     uint32_t first_layer) {
  auto impl = std::make_unique<Impl>();
  impl->name = layout.name();
  impl->input_size = Elements({layout.input_shape().begin(), layout.input_shape().end()});
  impl->output_size = Elements({layout.output_shape().begin(), layout.output_shape().end()});
  ASSIGN_OR_RETURN(impl->layers, LayerFactory(spec, layout, segment, first_layer).MakeLayers());
  while (impl->first_with_parameters < impl->layers.size() &&
         !impl->layers[impl->first_with_parameters]->has_parameters()) {
    ++impl->first_with_parameters;
  }
  impl->has_parameters = impl->first_with_parameters < impl->layers.size();
  return std::unique_ptr<Block>(new Block(std::move(impl)));
}

absl::StatusOr<std::unique_ptr<BlockState>> Block::NewState(Backend* backend,
                                                            uint64_t max_rows) const {
  auto state = std::make_unique<State>();
  state->owner = impl_.get();
  state->max_rows = max_rows;
  state->layers.resize(impl_->layers.size());

  // Where each piece begins; the whole is allocated at once.
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max() / 2;
  int64_t total = 0;
  const auto too_large = [&] {
    return absl::ResourceExhaustedError(absl::StrCat("block \"", impl_->name, "\": activations of ",
                                                     max_rows, " rows do not fit any memory"));
  };
  // Takes max_rows * size floats from the end of what is taken; -1 when the sum overflows.
  const auto take = [&](int64_t size) -> int64_t {
    if (size > 0 && max_rows > static_cast<uint64_t>(kMost / size)) return -1;
    const int64_t begin = total;
    const int64_t length = static_cast<int64_t>(max_rows) * size;
    if (length > kMost - total - kPieceAlignment) return -1;
    total += (length + kPieceAlignment - 1) / kPieceAlignment * kPieceAlignment;
    return begin;
  };
  struct Pieces {
    int64_t output, delta, input_gradient;
  };
  std::vector<Pieces> pieces;
  for (const std::unique_ptr<Layer>& layer : impl_->layers) {
    const LayerDemand demand = layer->demand();
    const Pieces piece = {take(demand.output), take(demand.delta), take(demand.input_gradient)};
    if (piece.output < 0 || piece.delta < 0 || piece.input_gradient < 0) return too_large();
    pieces.push_back(piece);
  }
  ASSIGN_OR_RETURN(state->memory, backend->Allocate(total), "block \"%s\", activations of %d rows",
                   impl_->name, max_rows);
  float* const memory = state->memory->data();
  for (size_t i = 0; i < pieces.size(); ++i) {
    state->layers[i].output = memory + pieces[i].output;
    state->layers[i].delta = memory + pieces[i].delta;
    state->layers[i].input_gradient = memory + pieces[i].input_gradient;
  }
  return state;
}

absl::StatusOr<ConstMatrix> Block::Forward(Backend* backend, const PassContext& context,
                                           ConstMatrix input, const float* weights,
                                           BlockState* state) const {
  ASSIGN_OR_RETURN(State * own, impl_->Own(state));
  own->rows_in_flight = -1;
  RETURN_IF_ERROR(impl_->CheckMatrix("the input", input, input.rows, impl_->input_size));
  if (input.rows < 0 || static_cast<uint64_t>(input.rows) > own->max_rows) {
    return impl_->Fault(
        absl::StrCat("found ", input.rows, " rows, expected at most ", own->max_rows));
  }
  if (weights == nullptr && impl_->has_parameters) return impl_->Fault("there are no weights");

  const LayerCall call = {backend, &context, weights};
  ConstMatrix value = input;
  for (size_t i = 0; i < impl_->layers.size(); ++i) {
    ASSIGN_OR_RETURN(value, impl_->layers[i]->Forward(call, value, &own->layers[i]));
  }
  if (context.training) own->rows_in_flight = input.rows;
  return value;
}

absl::StatusOr<ConstMatrix> Block::Backward(Backend* backend, const PassContext& context,
                                            ConstMatrix output_gradient, const float* weights,
                                            bool accumulate, bool want_input_gradient,
                                            float* weight_gradient, BlockState* state) const {
  ASSIGN_OR_RETURN(State * own, impl_->Own(state));
  if (own->rows_in_flight < 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "block \"", impl_->name, "\": backward without a forward pass in training before it"));
  }
  RETURN_IF_ERROR(impl_->CheckMatrix("the gradient of the output", output_gradient,
                                     own->rows_in_flight, impl_->output_size));
  if (impl_->has_parameters && (weights == nullptr || weight_gradient == nullptr)) {
    return impl_->Fault("there are no weights, or no place for their gradient");
  }

  const LayerCall call = {backend, &context, weights};
  ConstMatrix gradient = output_gradient;
  for (size_t i = impl_->layers.size(); i-- > 0;) {
    // Nothing in front of this layer wants a gradient any more: it ends here.
    const bool want = want_input_gradient || i > impl_->first_with_parameters;
    const Layer& layer = *impl_->layers[i];
    if (!want && !layer.has_parameters()) return ConstMatrix();
    ASSIGN_OR_RETURN(gradient, layer.BackwardInput(call, gradient, want, &own->layers[i]));
    RETURN_IF_ERROR(layer.BackwardWeights(call, accumulate, weight_gradient, &own->layers[i]));
  }
  return gradient;
}

}  // namespace sangam
