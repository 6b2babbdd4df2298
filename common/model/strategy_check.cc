#include "common/model/strategy_check.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/model/field_fault.h"
#include "proto/job.pb.h"
#include "proto/model.pb.h"

namespace sangam {
namespace {

constexpr uint32_t kMaxInterleave = 64;
constexpr uint32_t kDefaultInterleave = 2;
constexpr uint32_t kMaxCredits = 4096;

// "HYBRID"; the number of a value that this program does not know.
std::string NameOf(v1::Strategy strategy) {
  const std::string& name = v1::Strategy_Name(strategy);
  return name.empty() ? absl::StrCat(static_cast<int>(strategy)) : name;
}

bool MayPipeline(v1::Strategy strategy) {
  return strategy == v1::MODEL_PARALLEL || strategy == v1::HYBRID || strategy == v1::AUTO;
}

uint32_t Workers(const v1::JobSpec& spec) {
  return spec.resources().has_workers() ? spec.resources().workers() : 1;
}

// Stages on each worker of a pipeline.
uint32_t Chunks(const v1::PipelineSpec& pipeline) {
  if (pipeline.schedule() != v1::INTERLEAVED) return 1;
  return pipeline.interleave() == 0 ? kDefaultInterleave : pipeline.interleave();
}

uint32_t Blocks(const v1::JobSpec& spec) {
  return static_cast<uint32_t>(spec.model().block_size());
}

// Workers of one pipeline; 0 while that is the planner's choice.
uint32_t Ranks(const v1::JobSpec& spec) {
  if (spec.pipeline().workers() != 0) return spec.pipeline().workers();
  if (spec.strategy() != v1::MODEL_PARALLEL) return 0;
  return std::min(Workers(spec), Blocks(spec) / Chunks(spec.pipeline()));
}

// What a pipeline needs, where the job can have nothing else.
void CheckRoom(const v1::JobSpec& spec, std::vector<FieldFault>* faults) {
  const bool hybrid = spec.strategy() == v1::HYBRID;
  if (!hybrid && spec.strategy() != v1::MODEL_PARALLEL) return;
  const v1::PipelineSpec& pipeline = spec.pipeline();
  const uint32_t least = hybrid ? 4 : 2;
  if (Workers(spec) < least && pipeline.workers() == 0) {
    AddFault(faults, "resources.workers", "found ", Workers(spec), ", expected at least ", least,
             " with ", NameOf(spec.strategy()), hybrid ? ": two pipelines of two" : "");
  }
  const uint64_t stages = std::max<uint64_t>(2, pipeline.workers()) * Chunks(pipeline);
  if (stages <= Blocks(spec)) return;
  AddFault(faults, "model.block", "found ", Blocks(spec), Blocks(spec) == 1 ? " block" : " blocks",
           ", expected at least ", stages, ": one for each stage of ",
           std::max<uint32_t>(2, pipeline.workers()), " workers with ", Chunks(pipeline),
           " on each");
}

void CheckWorkers(const v1::JobSpec& spec, std::vector<FieldFault>* faults) {
  const uint32_t ranks = spec.pipeline().workers();
  const uint32_t workers = Workers(spec);
  if (ranks == 0) return;
  // Division: the product may overflow.
  const bool hybrid = spec.strategy() == v1::HYBRID;
  const uint32_t most = hybrid ? workers / 2 : workers;
  if (ranks >= 2 && ranks <= most) return;
  if (most < 2) {
    AddFault(faults, "pipeline.workers", "found ", ranks,
             ", expected resources.workers of at least ", hybrid ? 4 : 2, " for it (it is ",
             workers, ")");
    return;
  }
  AddFault(faults, "pipeline.workers", "found ", ranks, ", expected 2 to ", most,
           " (resources.workers", hybrid ? " / 2 with HYBRID: two pipelines or more" : "", ")");
}

void CheckSchedule(const v1::PipelineSpec& pipeline, std::vector<FieldFault>* faults) {
  if (!v1::Schedule_IsValid(pipeline.schedule())) {
    AddFault(faults, "pipeline.schedule", "found ", static_cast<int>(pipeline.schedule()),
             ", expected GPIPE, ONE_F_ONE_B, INTERLEAVED, ZERO_BUBBLE or EAGER_ONE_F_ONE_B");
  }
  if (pipeline.interleave() != 0 && pipeline.schedule() != v1::INTERLEAVED) {
    AddFault(faults, "pipeline.interleave", "found ", pipeline.interleave(),
             ", expected none unless pipeline.schedule is INTERLEAVED");
  } else if (pipeline.interleave() == 1 || pipeline.interleave() > kMaxInterleave) {
    AddFault(faults, "pipeline.interleave", "found ", pipeline.interleave(), ", expected 2 to ",
             kMaxInterleave);
  }
  if (pipeline.has_credits() && (pipeline.credits() == 0 || pipeline.credits() > kMaxCredits)) {
    AddFault(faults, "pipeline.credits", "found ", pipeline.credits(), ", expected 1 to ",
             kMaxCredits);
  }
}

void CheckCut(const v1::JobSpec& spec, std::vector<FieldFault>* faults) {
  const v1::PipelineSpec& pipeline = spec.pipeline();
  if (pipeline.cut().empty()) return;
  std::map<std::string, int> index_of;
  for (int b = 0; b < spec.model().block_size(); ++b) {
    const std::string& name = spec.model().block(b).name();
    index_of.emplace(name.empty() ? absl::StrCat("block", b) : name, b);
  }
  int last = 0;
  for (int i = 0; i < pipeline.cut_size(); ++i) {
    const std::string field = absl::StrCat("pipeline.cut[", i, "]");
    const auto found = index_of.find(pipeline.cut(i));
    if (found == index_of.end()) {
      AddFault(faults, field, "found \"", pipeline.cut(i), "\", expected the name of a block");
    } else if (found->second == 0) {
      AddFault(faults, field, "found \"", pipeline.cut(i),
               "\", expected a later block (the first one begins the first stage anyway)");
    } else if (found->second <= last) {
      AddFault(faults, field, "found \"", pipeline.cut(i), "\", expected a block behind \"",
               pipeline.cut(i - 1), "\", in the model's order");
    } else {
      last = found->second;
    }
  }
  const uint64_t stages = uint64_t{Ranks(spec)} * Chunks(pipeline);
  if (Ranks(spec) == 1) return;  // CheckRoom has said so.
  const auto given = static_cast<uint64_t>(pipeline.cut_size());
  if (stages != 0 && given != stages - 1) {
    AddFault(faults, "pipeline.cut", "found ", given, given == 1 ? " name" : " names",
             ", expected ", stages - 1, " for ", stages, stages == 1 ? " stage (" : " stages (",
             Ranks(spec), " workers of a pipeline, ", Chunks(pipeline), " on each)");
  }
}

}  // namespace

void CheckStrategy(const v1::JobSpec& spec, std::vector<FieldFault>* faults) {
  const v1::Strategy strategy = spec.strategy();
  if (!v1::Strategy_IsValid(strategy)) {
    AddFault(faults, "strategy", "found ", NameOf(strategy),
             ", expected DATA_PARALLEL, MODEL_PARALLEL, HYBRID or AUTO");
    return;
  }
  CheckRoom(spec, faults);
  if (!spec.has_pipeline()) return;
  if (!MayPipeline(strategy)) {
    const std::string found =
        strategy == v1::STRATEGY_UNSPECIFIED ? "no strategy" : NameOf(strategy);
    AddFault(faults, "pipeline", "found it with ", found,
             ", expected it only with strategy MODEL_PARALLEL, HYBRID or AUTO");
    return;
  }
  CheckWorkers(spec, faults);
  CheckSchedule(spec.pipeline(), faults);
  CheckCut(spec, faults);
}

void ResolveStrategy(v1::JobSpec* spec) {
  if (spec->strategy() == v1::STRATEGY_UNSPECIFIED) spec->set_strategy(v1::DATA_PARALLEL);
  if (!MayPipeline(spec->strategy())) return;
  v1::PipelineSpec* pipeline = spec->mutable_pipeline();
  if (pipeline->schedule() == v1::SCHEDULE_UNSPECIFIED) pipeline->set_schedule(v1::ONE_F_ONE_B);
  pipeline->set_interleave(Chunks(*pipeline) == 1 ? 0 : Chunks(*pipeline));
}

}  // namespace sangam
