#include "common/model/model_layout.h"

#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/model/field_fault.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "proto/job.pb.h"
#include "proto/model.pb.h"
#include "xxhash.h"

namespace sangam {
namespace {

using Shape = std::vector<uint64_t>;

// Bounds that keep every product of sizes and every byte count within 64 bits.
constexpr uint64_t kMaxDimension = uint64_t{1} << 31;
constexpr uint64_t kMaxElements = uint64_t{1} << 40;
constexpr int kMaxBlocks = 4096;
constexpr int kMaxLayersPerBlock = 1024;

std::string ShapeText(const Shape& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ","), "]");
}

// Product of a shape whose dimensions and product have been checked.
uint64_t Elements(const Shape& shape) {
  uint64_t elements = 1;
  for (const uint64_t dimension : shape) elements *= dimension;
  return elements;
}

void AddFault(const std::string& field, std::string message, std::vector<FieldFault>* faults) {
  faults->push_back({field, std::move(message)});
}

bool CheckShape(const Shape& shape, const std::string& field, std::vector<FieldFault>* faults) {
  if (shape.empty()) {
    AddFault(field, "found nothing, expected the shape of one sample, such as 784", faults);
    return false;
  }
  uint64_t elements = 1;
  for (const uint64_t dimension : shape) {
    if (dimension == 0 || dimension > kMaxDimension || elements > kMaxElements / dimension) {
      AddFault(field,
               absl::StrCat("found ", ShapeText(shape), ", expected dimensions of 1 to ",
                            kMaxDimension, " and at most ", kMaxElements, " elements"),
               faults);
      return false;
    }
    elements *= dimension;
  }
  return true;
}

void CheckInitializer(const v1::InitializerSpec& spec, const std::string& field,
                      std::vector<FieldFault>* faults) {
  switch (spec.kind_case()) {
    case v1::InitializerSpec::kUniform:
      if (!(spec.uniform().bound() >= 0) || !std::isfinite(spec.uniform().bound())) {
        AddFault(absl::StrCat(field, ".uniform.bound"),
                 absl::StrCat("found ", spec.uniform().bound(), ", expected a finite number >= 0"),
                 faults);
      }
      break;
    case v1::InitializerSpec::kFanIn:
      if (!(spec.fan_in().gain() > 0) || !std::isfinite(spec.fan_in().gain())) {
        AddFault(absl::StrCat(field, ".fan_in.gain"),
                 absl::StrCat("found ", spec.fan_in().gain(), ", expected a finite number > 0"),
                 faults);
      }
      break;
    case v1::InitializerSpec::kConstant:
      if (!std::isfinite(spec.constant().value())) {
        AddFault(absl::StrCat(field, ".constant.value"),
                 absl::StrCat("found ", spec.constant().value(), ", expected a finite number"),
                 faults);
      }
      break;
    case v1::InitializerSpec::KIND_NOT_SET:
      break;  // The layer's default.
  }
}

// Shape after `layer`; faults when it does not fit `input`, and then `input` comes back so that the
// layers behind it are checked as well.
Shape LayerOutputShape(const v1::LayerSpec& layer, const Shape& input, const std::string& field,
                       std::vector<FieldFault>* faults) {
  switch (layer.kind_case()) {
    case v1::LayerSpec::kLinear: {
      const v1::LinearSpec& linear = layer.linear();
      if (input.size() != 1) {
        AddFault(absl::StrCat(field, ".linear"),
                 absl::StrCat("found an input of shape ", ShapeText(input),
                              ", expected one dimension; put a flatten layer in front"),
                 faults);
      }
      const uint64_t width = linear.out_features();
      if (width == 0 || width > kMaxDimension || Elements(input) > kMaxElements / width) {
        AddFault(absl::StrCat(field, ".linear.out_features"),
                 absl::StrCat("found ", width, ", expected 1 to ", kMaxDimension, " and at most ",
                              kMaxElements, " weights"),
                 faults);
        return input;
      }
      CheckInitializer(linear.weight_initializer(),
                       absl::StrCat(field, ".linear.weight_initializer"), faults);
      CheckInitializer(linear.bias_initializer(), absl::StrCat(field, ".linear.bias_initializer"),
                       faults);
      if (linear.no_bias() && linear.has_bias_initializer()) {
        AddFault(absl::StrCat(field, ".linear.bias_initializer"),
                 "found an initializer together with no_bias, expected only one of them", faults);
      }
      return {width};
    }
    case v1::LayerSpec::kFlatten:
      return {Elements(input)};
    case v1::LayerSpec::kDropout: {
      const float rate = layer.dropout().rate();
      if (!(rate >= 0 && rate < 1)) {
        AddFault(absl::StrCat(field, ".dropout.rate"),
                 absl::StrCat("found ", rate, ", expected at least 0 and below 1"), faults);
      }
      return input;
    }
    case v1::LayerSpec::kRelu:
    case v1::LayerSpec::kGelu:
    case v1::LayerSpec::kTanh:
      return input;
    case v1::LayerSpec::KIND_NOT_SET:
      break;
  }
  AddFault(field, "found an empty layer, expected linear, relu, gelu, tanh, flatten or dropout",
           faults);
  return input;
}

std::vector<Shape> WalkLayers(const v1::BlockSpec& block, Shape shape, const std::string& field,
                              std::vector<FieldFault>* faults) {
  std::vector<Shape> shapes;
  for (int i = 0; i < block.layer_size(); ++i) {
    shape = LayerOutputShape(block.layer(i), shape, absl::StrCat(field, ".layer[", i, "]"), faults);
    shapes.push_back(shape);
  }
  return shapes;
}

bool IsName(const std::string& name) {
  for (const char c : name) {
    const bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '_' || c == '-';
    if (!good) return false;
  }
  return !name.empty() && name.size() <= 128;
}

// Appends the parameters of a linear layer to `segment`.
void AddLinearParameters(const v1::LinearSpec& linear, uint64_t in_features,
                         const std::string& prefix, uint32_t* next_parameter,
                         v1::SegmentLayout* segment) {
  const auto add = [&](const char* name, const Shape& shape, bool decay) {
    v1::ParameterLayout* parameter = segment->add_parameter();
    parameter->set_name(absl::StrCat(prefix, ".", name));
    for (const uint64_t dimension : shape) parameter->add_shape(dimension);
    parameter->set_offset(segment->element_count());
    parameter->set_element_count(Elements(shape));
    parameter->set_fan_in(in_features);
    parameter->set_parameter_index((*next_parameter)++);
    parameter->set_decay(decay);
    segment->set_element_count(segment->element_count() + parameter->element_count());
    return parameter;
  };
  v1::InitializerSpec by_default;
  by_default.mutable_fan_in()->set_gain(1.0f / 3.0f);
  *add("weight", {linear.out_features(), in_features}, true)->mutable_initializer() =
      linear.weight_initializer().kind_case() == v1::InitializerSpec::KIND_NOT_SET
          ? by_default
          : linear.weight_initializer();
  if (linear.no_bias()) return;
  *add("bias", {linear.out_features()}, false)->mutable_initializer() =
      linear.bias_initializer().kind_case() == v1::InitializerSpec::KIND_NOT_SET
          ? by_default
          : linear.bias_initializer();
}

// Costs of one layer for one sample.
void AddCosts(const v1::LayerSpec& layer, const Shape& input, const Shape& output,
              v1::BlockLayout* block) {
  uint64_t flops = Elements(output);
  if (layer.has_linear()) flops = 2 * Elements(input) * Elements(output);
  if (layer.has_flatten()) flops = 0;
  block->set_forward_flops(block->forward_flops() + flops);
  if (!layer.has_flatten()) {
    block->set_activation_bytes(block->activation_bytes() + sizeof(float) * Elements(output));
  }
}

// Checks and lays out block `index`, whose input has `shape`; returns the shape of its output.
Shape LayOutBlock(const v1::ModelSpec& model, int index, const std::string& name, Shape shape,
                  v1::ModelLayout* layout, uint32_t* next_parameter,
                  std::vector<FieldFault>* faults) {
  const v1::BlockSpec& spec = model.block(index);
  const std::string field = absl::StrCat("model.block[", index, "]");
  if (spec.layer_size() == 0 || spec.layer_size() > kMaxLayersPerBlock) {
    AddFault(
        absl::StrCat(field, ".layer"),
        absl::StrCat("found ", spec.layer_size(), " layers, expected 1 to ", kMaxLayersPerBlock),
        faults);
    return shape;
  }
  v1::BlockLayout* block = layout->add_block();
  block->set_name(name);
  for (const uint64_t dimension : shape) block->add_input_shape(dimension);

  const size_t faults_before = faults->size();
  const std::vector<Shape> outputs = WalkLayers(spec, shape, field, faults);
  if (faults->size() != faults_before) return outputs.back();

  v1::SegmentLayout segment;
  segment.set_block(index);
  for (int i = 0; i < spec.layer_size(); ++i) {
    AddCosts(spec.layer(i), shape, outputs[i], block);
    if (spec.layer(i).has_linear()) {
      AddLinearParameters(spec.layer(i).linear(), shape[0], absl::StrCat(name, ".", i),
                          next_parameter, &segment);
    }
    shape = outputs[i];
  }
  for (const uint64_t dimension : shape) block->add_output_shape(dimension);
  block->set_segment(segment.element_count() == 0 ? -1 : layout->segment_size());
  if (segment.element_count() != 0) {
    layout->set_parameter_count(layout->parameter_count() + segment.element_count());
    *layout->add_segment() = std::move(segment);
  }
  return shape;
}

// Equal messages give equal bytes only when map order and the like are fixed.
std::string DeterministicBytes(const google::protobuf::MessageLite& message) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  message.SerializeToCodedStream(&coded);
  coded.Trim();
  return bytes;
}

}  // namespace

v1::ModelLayout BuildModelLayout(const v1::ModelSpec& model, std::vector<FieldFault>* faults) {
  v1::ModelLayout layout;
  Shape shape(model.input_shape().begin(), model.input_shape().end());
  const bool shape_known = CheckShape(shape, "model.input_shape", faults);
  if (model.block_size() == 0 || model.block_size() > kMaxBlocks) {
    AddFault("model.block",
             absl::StrCat("found ", model.block_size(), " blocks, expected 1 to ", kMaxBlocks),
             faults);
    return layout;
  }
  if (!shape_known) return layout;
  std::set<std::string> names;
  uint32_t next_parameter = 0;
  for (int b = 0; b < model.block_size(); ++b) {
    const std::string name =
        model.block(b).name().empty() ? absl::StrCat("block", b) : model.block(b).name();
    const std::string field = absl::StrCat("model.block[", b, "].name");
    if (!IsName(name)) {
      AddFault(
          field,
          absl::StrCat("found \"", name, "\", expected at most 128 letters, digits, '_' and '-'"),
          faults);
    }
    if (!names.insert(name).second) {
      AddFault(field, absl::StrCat("found \"", name, "\" twice, expected a unique name"), faults);
    }
    shape = LayOutBlock(model, b, name, std::move(shape), &layout, &next_parameter, faults);
  }
  if (layout.parameter_count() == 0 && faults->empty()) {
    AddFault("model.block", "found no layer with parameters, expected at least one to train",
             faults);
  }
  return layout;
}

absl::StatusOr<v1::ModelLayout> BuildModelLayout(const v1::ModelSpec& model) {
  std::vector<FieldFault> faults;
  v1::ModelLayout layout = BuildModelLayout(model, &faults);
  if (!faults.empty()) return ToStatus(faults);
  return layout;
}

absl::StatusOr<std::vector<std::vector<uint64_t>>> LayerOutputShapes(
    const v1::BlockSpec& block, const std::vector<uint64_t>& input_shape) {
  std::vector<FieldFault> faults;
  if (!CheckShape(input_shape, "input_shape", &faults)) return ToStatus(faults);
  std::vector<Shape> shapes = WalkLayers(block, input_shape, "block", &faults);
  if (!faults.empty()) return ToStatus(faults);
  return shapes;
}

uint64_t SchemaHash(const v1::JobSpec& spec, const v1::ModelLayout& layout) {
  std::string bytes;
  for (const google::protobuf::MessageLite* message :
       {static_cast<const google::protobuf::MessageLite*>(&layout),
        static_cast<const google::protobuf::MessageLite*>(&spec.batch()),
        static_cast<const google::protobuf::MessageLite*>(&spec.optimizer())}) {
    const std::string part = DeterministicBytes(*message);
    // The length keeps the parts apart.
    absl::StrAppend(&bytes, part.size(), ":", part);
  }
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace sangam
