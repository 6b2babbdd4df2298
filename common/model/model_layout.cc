#include "common/model/model_layout.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/model/expand_layers.h"
#include "common/model/field_fault.h"
#include "common/model/label_kind.h"
#include "common/model/layer_check.h"
#include "common/model/layer_demand.h"
#include "common/model/layer_nodes.h"
#include "common/model/layer_parameters.h"
#include "common/model/layer_shapes.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "proto/job.pb.h"
#include "proto/model.pb.h"
#include "xxhash.h"

namespace sangam {
namespace {

constexpr int kMaxBlocks = 4096;
// Of the whole model, those that others stand for included: a few bytes of a specification can mean
// many.
constexpr uint64_t kMaxLayers = 65536;
// Sums over the blocks stay far from 64 bits, also times the rows of a batch.
constexpr uint64_t kMaxParameters = uint64_t{1} << 48;
constexpr uint64_t kMaxSampleFlops = uint64_t{1} << 56;

void AddFault(const std::string& field, std::string message, std::vector<FieldFault>* faults) {
  faults->push_back({field, std::move(message)});
}

bool IsName(const std::string& name) {
  for (const char c : name) {
    const bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '_' || c == '-';
    if (!good) return false;
  }
  return !name.empty() && name.size() <= 128;
}

void CheckBlockNames(const v1::ModelSpec& model, std::vector<FieldFault>* faults) {
  std::set<std::string> names;
  for (int b = 0; b < model.block_size(); ++b) {
    const std::string name = BlockName(model, b);
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
  }
}

// The skip connection into block `index`. inputs[b]: the shape in front of block b.
void CheckSkip(const v1::ModelSpec& model, int index, const std::vector<Shape>& inputs,
               std::vector<FieldFault>* faults) {
  const std::string& from = model.block(index).add_output_of();
  if (from.empty()) return;
  const std::string field = absl::StrCat("model.block[", index, "].add_output_of");
  // The block just before gives the input already.
  const std::optional<int> source = FindBlock(model, index - 1, from);
  if (!source.has_value()) {
    AddFault(field,
             absl::StrCat("found \"", from,
                          "\", expected the name of an earlier block, not the one just before"),
             faults);
    return;
  }
  const Shape& output = inputs[static_cast<size_t>(*source) + 1];
  const Shape& input = inputs[static_cast<size_t>(index)];
  if (output != input) {
    AddFault(field,
             absl::StrCat("found \"", from, "\" with an output of shape ", ShapeText(output),
                          ", expected that of the block's input, ", ShapeText(input)),
             faults);
  }
}

// Checks all blocks; returns the shape in front of each, and behind the last.
std::vector<Shape> CheckBlocks(const v1::ModelSpec& model, std::vector<FieldFault>* faults) {
  std::vector<Shape> inputs = {Shape(model.input_shape().begin(), model.input_shape().end())};
  for (int b = 0; b < model.block_size(); ++b) {
    CheckSkip(model, b, inputs, faults);
    const std::vector<Shape> outputs =
        CheckLayers({&model, b}, inputs.back(), absl::StrCat("model.block[", b, "]"), faults);
    inputs.push_back(outputs.empty() ? Shape(inputs.back()) : outputs.back());
  }
  return inputs;
}

// The embedding table that a layer of the block uses, by the name of its block; empty: none.
std::string TableOf(const Layers& layers) {
  for (const v1::LayerSpec& layer : layers) {
    if (layer.has_tied_head()) return layer.tied_head().block();
    for (const Layers* const chain : ChainsWithin(layer)) {
      std::string within = TableOf(*chain);
      if (!within.empty()) return within;
    }
  }
  return {};
}

// Lays out the blocks of a model without faults, one after the other.
class LayoutWriter {
 public:
  LayoutWriter(const v1::ModelSpec& model, v1::ModelLayout* layout)
      : model_(model), layout_(layout) {}

  void Add(int index, const Shape& input, const Shape& output) {
    const v1::BlockSpec spec = ExpandBlock(model_, index, input);
    v1::BlockLayout* block = layout_->add_block();
    block->set_name(BlockName(model_, index));
    for (const uint64_t dimension : input) block->add_input_shape(dimension);
    for (const uint64_t dimension : output) block->add_output_shape(dimension);

    v1::SegmentLayout segment;
    segment.set_block(static_cast<uint32_t>(index));
    segment.add_use(static_cast<uint32_t>(index));
    std::vector<LayerDemand> demands;
    uint64_t flops = 0;
    for (const LayerNode& node : LayerNodes({&model_, index}, spec, input, next_layer_)) {
      AddParameters(node, &next_parameter_, &segment);
      demands.push_back(DemandOf(node));
      flops += ForwardFlops(node);
    }
    next_layer_ += static_cast<uint32_t>(CountLayers(spec));
    const BlockDemand demand = DemandOf(demands, spec.recompute());
    block->set_forward_flops(flops);
    block->set_activation_bytes(sizeof(float) * static_cast<uint64_t>(demand.state));
    block->set_scratch_bytes(sizeof(float) * static_cast<uint64_t>(demand.scratch));

    block->set_segment(segment.element_count() == 0 ? -1 : layout_->segment_size());
    if (segment.element_count() != 0) {
      layout_->set_parameter_count(layout_->parameter_count() + segment.element_count());
      *layout_->add_segment() = std::move(segment);
    }
    AddLinks(index, spec, block);
  }

 private:
  // To earlier blocks.
  void AddLinks(int index, const v1::BlockSpec& spec, v1::BlockLayout* block) {
    if (!spec.add_output_of().empty()) {
      block->set_skip_from(static_cast<uint32_t>(*FindBlock(model_, index, spec.add_output_of())));
    }
    const std::string table = TableOf(spec.layer());
    if (table.empty()) return;
    const int32_t tied = layout_->block(*FindBlock(model_, index, table)).segment();
    block->set_tied_segment(static_cast<uint32_t>(tied));
    layout_->mutable_segment(tied)->add_use(static_cast<uint32_t>(index));
  }

  const v1::ModelSpec& model_;
  v1::ModelLayout* layout_;
  uint32_t next_layer_ = 0;
  uint32_t next_parameter_ = 0;
};

// With numbers as targets each output is a term; else each label.
uint64_t TermsPerSample(const v1::LossSpec& loss, const Shape& output) {
  if (LabelKindOf(loss) == LabelKind::kNumber) return Elements(output);
  return output.size() == 1 ? 1 : output[0];
}

void CheckSums(const v1::ModelLayout& layout, std::vector<FieldFault>* faults) {
  uint64_t flops = 0;
  for (const v1::BlockLayout& block : layout.block()) {
    // Of one block far below 2^63; a sum above the bound stays there.
    flops = std::min(flops + block.forward_flops(), 2 * kMaxSampleFlops);
  }
  if (flops > kMaxSampleFlops) {
    AddFault("model.block",
             absl::StrCat("found more floating-point operations for one sample than ",
                          kMaxSampleFlops, ", expected fewer"),
             faults);
  }
  if (layout.parameter_count() > kMaxParameters) {
    AddFault("model.block",
             absl::StrCat("found ", layout.parameter_count(), " parameters, expected at most ",
                          kMaxParameters),
             faults);
  }
  if (layout.parameter_count() == 0) {
    AddFault("model.block", "found no layer with parameters, expected at least one to train",
             faults);
  }
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

v1::ModelLayout BuildModelLayout(const v1::ModelSpec& model, const v1::LossSpec& loss,
                                 std::vector<FieldFault>* faults) {
  v1::ModelLayout layout;
  const bool shape_known = CheckShape({model.input_shape().begin(), model.input_shape().end()},
                                      "model.input_shape", faults);
  if (model.block_size() == 0 || model.block_size() > kMaxBlocks) {
    AddFault("model.block",
             absl::StrCat("found ", model.block_size(), " blocks, expected 1 to ", kMaxBlocks),
             faults);
    return layout;
  }
  uint64_t layers = 0;
  for (const v1::BlockSpec& block : model.block()) layers += CountLayers(block);
  if (layers > kMaxLayers) {
    AddFault("model.block",
             absl::StrCat("found ", layers, " layers in all, expected at most ", kMaxLayers),
             faults);
    return layout;
  }
  if (!shape_known) return layout;
  const size_t faults_before = faults->size();
  CheckBlockNames(model, faults);
  const std::vector<Shape> inputs = CheckBlocks(model, faults);
  if (faults->size() != faults_before) return layout;

  LayoutWriter writer(model, &layout);
  for (int b = 0; b < model.block_size(); ++b) {
    writer.Add(b, inputs[static_cast<size_t>(b)], inputs[static_cast<size_t>(b) + 1]);
  }
  layout.set_terms_per_sample(TermsPerSample(loss, inputs.back()));
  CheckSums(layout, faults);
  return layout;
}

absl::StatusOr<v1::ModelLayout> BuildModelLayout(const v1::ModelSpec& model,
                                                 const v1::LossSpec& loss) {
  std::vector<FieldFault> faults;
  v1::ModelLayout layout = BuildModelLayout(model, loss, &faults);
  if (!faults.empty()) return ToStatus(faults);
  return layout;
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
