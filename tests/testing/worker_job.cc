#include "tests/testing/worker_job.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/model/job_check.h"
#include "common/model/model_layout.h"
#include "common/plan/batch_cut.h"
#include "common/plan/page_map.h"
#include "google/protobuf/text_format.h"
#include "proto/job.pb.h"
#include "proto/plan.pb.h"
#include "tests/testing/idx_files.h"
#include "tests/testing/subprocess.h"

namespace sangam::testing {
namespace {

constexpr int kClasses = 5;
constexpr int kSide = 6;
constexpr uint64_t kPageElements = 100;

std::string CnnBlocks(const std::string& dropout) {
  const auto block = [](const std::string& name, const std::string& layers) {
    return absl::StrCat("  block { name: \"", name, "\" ", layers, " }\n");
  };
  return absl::StrCat(
      block("stem",
            "layer { conv2d { out_channels: 4 kernel_height: 3 padding: 1 } } layer { relu {} }"),
      block("norm", "layer { batch_norm {} }" + dropout),
      block("halve",
            "layer { residual { layer { conv2d { out_channels: 5 kernel_height: 3 stride: 2 "
            "padding: 1 no_bias: true } } layer { batch_norm { momentum: 0.3 } } "
            "shortcut { conv2d { out_channels: 5 kernel_height: 1 stride: 2 } } "
            "shortcut { batch_norm {} } } } layer { relu {} } recompute: true"),
      block("bend", "layer { sigmoid {} }"),
      block("branches",
            "layer { concat { branch { layer { conv2d { out_channels: 2 kernel_height: 3 "
            "padding: 1 } } layer { batch_norm {} } } branch { layer { max_pool2d { kernel: 3 "
            "stride: 1 padding: 1 } } } branch {} } }" +
                dropout),
      block("layer_norm", "layer { layer_norm {} } layer { gelu {} }"),
      block("skip",
            "layer { conv2d { out_channels: 12 kernel_height: 1 } } "
            "add_output_of: \"branches\""),
      block("mean", "layer { average_pool2d {} } layer { flatten {} }"),
      block("hidden",
            "layer { linear { out_features: 8 } } layer { batch_norm {} } "
            "layer { relu {} }"),
      block("out", "layer { linear { out_features: 5 } }"));
}

constexpr uint32_t kPositions = 5;

std::string GptBlocks(float dropout) {
  const auto block = [&](const std::string& name, const std::string& kind) {
    return absl::StrCat("  block { name: \"", name, "\" layer { transformer { heads: 2 hidden: 12 ",
                        kind, " dropout: ", dropout, " } }", name == "t1" ? " recompute: true" : "",
                        " }\n");
  };
  return absl::StrCat("  block { name: \"embed\" layer { embedding { vocabulary: 256 width: 8 } } ",
                      "layer { position_embedding {} } }\n", block("t0", ""),
                      block("t1", "rotary: true"), block("t2", ""),
                      "  block { name: \"head\" layer { rms_norm {} } layer { tied_head { block: "
                      "\"embed\" } } }\n");
}

// Words of a made-up language, enough for so many samples.
std::string Text(uint32_t samples, uint32_t seed) {
  std::string text;
  while (text.size() < size_t{samples} * kPositions + 1) {
    seed = seed * 1664525 + 1013904223;
    text += "abcdefgh "[(seed >> 24) % 9];
  }
  text.resize(size_t{samples} * kPositions + 1);
  return text;
}

std::string Blocks(const WorkerJob& job) {
  const std::string dropout = absl::StrCat(" layer { dropout { rate: ", job.dropout, " } }");
  if (job.cnn) return CnnBlocks(dropout);
  if (job.gpt) return GptBlocks(job.dropout);
  const std::string flat = "  block { name: \"flat\" layer { flatten {} } }\n";
  const std::string out = "  block { name: \"out\" layer { linear { out_features: 5 } } }\n";
  if (!job.deep) {
    return absl::StrCat(
        flat, "  block { name: \"hidden\" layer { linear { out_features: 12 } } layer { relu {} }",
        dropout, " }\n  block { name: \"middle\" layer { linear { out_features: 9 } } ",
        "layer { gelu {} } }\n  block { name: \"bend\" layer { tanh {} } }\n", out);
  }
  std::string text = flat;
  for (int b = 1; b < 9; ++b) {
    absl::StrAppend(&text, "  block { name: \"b", b, "\" layer { linear { out_features: 12 } } ",
                    "layer { ", b % 2 == 0 ? "gelu" : "relu", " {} }", dropout,
                    b == 3 ? " recompute: true" : "", b == 6 ? " add_output_of: \"b2\"" : "",
                    b == 4 || b == 7 ? " add_output_of: \"b1\"" : "", " }\n");
  }
  return text + out;
}

std::string JobText(const WorkerJob& job) {
  const std::string input_shape = job.gpt   ? absl::StrCat("[", kPositions, "]")
                                  : job.cnn ? "[6, 6, 1]"
                                            : "[1, 6, 6]";
  const std::string data =
      job.gpt ? "data { text { train: \"train-text\" test: \"test-text\" } }\n"
              : "data { idx { train_images: \"train-images\" train_labels: \"train-labels\" "
                "test_images: \"test-images\" test_labels: \"test-labels\" } mean: 0.4 stddev: 0.3 "
                "}\n";
  return absl::StrCat("name: \"small\" seed: 11\n", "model {\n  input_shape: ", input_shape, "\n",
                      Blocks(job), "}\n", "loss { ", job.gpt ? "token" : "softmax",
                      "_cross_entropy {} }\n", data, "optimizer { learning_rate: 0.3 sgd {} }\n",
                      "batch { size: ", job.batch, " micro_batches: ", job.micro_batches,
                      " shares: ", job.shares, " }\n", "epochs: ", job.epochs,
                      "\nevaluation { every_epochs: ", job.every_epochs, " }\n",
                      "resources { workers: ", job.workers, " servers: 2 }\n");
}

}  // namespace

void WriteData(const WorkerJob& job, const std::string& folder) {
  if (job.gpt) {
    WriteFile(absl::StrCat(folder, "/train-text"), Text(job.train_samples, 1));
    WriteFile(absl::StrCat(folder, "/test-text"), Text(job.test_samples, 2));
    return;
  }
  const ImageSet train = MakeImages(1, static_cast<int>(job.train_samples), kSide, kSide, kClasses);
  const ImageSet test = MakeImages(2, static_cast<int>(job.test_samples), kSide, kSide, kClasses);
  WriteFile(absl::StrCat(folder, "/train-images"), IdxImages(train));
  WriteFile(absl::StrCat(folder, "/train-labels"), IdxLabels(train));
  WriteFile(absl::StrCat(folder, "/test-images"), IdxImages(test));
  WriteFile(absl::StrCat(folder, "/test-labels"), IdxLabels(test));
}

v1::Assignment MakeAssignment(const WorkerJob& job, v1::Assignment::Phase phase) {
  v1::JobSpec given;
  SANGAM_CHECK(google::protobuf::TextFormat::ParseFromString(JobText(job), &given));
  SANGAM_CHECK(CheckJobSpec(given).empty());
  v1::Assignment assignment;
  assignment.set_phase(phase);
  given.set_precision(job.precision);
  *assignment.mutable_spec() = ResolveDefaults(given);
  v1::Plan* plan = assignment.mutable_plan();
  plan->set_job(job.job);
  plan->set_generation(job.generation);
  plan->set_page_elements(kPageElements);
  plan->set_micro_batches(job.micro_batches);
  plan->set_shares(job.shares);
  const auto layout = BuildModelLayout(given.model());
  SANGAM_CHECK(layout.ok());
  *plan->mutable_layout() = *layout;
  plan->set_schema_hash(SchemaHash(assignment.spec(), *layout));
  plan->set_ranks(job.ranks);
  plan->set_schedule(job.schedule);
  plan->set_credits(job.credits);
  plan->set_lanes(job.lanes);
  for (uint32_t i = 0; i < job.ranks * job.chunks; ++i) {
    const IndexRange part =
        EvenPart(static_cast<uint64_t>(layout->block_size()), job.ranks * job.chunks, i);
    v1::StagePlan* stage = plan->add_stage();
    stage->set_first_block(static_cast<uint32_t>(part.begin));
    stage->set_block_count(static_cast<uint32_t>(part.size()));
  }
  for (uint32_t s = 0; s < 2; ++s) {
    v1::ServerPlan* server = plan->add_server();
    server->set_name(absl::StrCat("s", s));
    server->set_incarnation(1);
    server->set_address(absl::StrCat("127.0.0.1:", 7070 + s));
  }
  uint32_t turn = 0;
  for (const v1::SegmentLayout& segment : layout->segment()) {
    v1::SegmentPages* pages = plan->add_segment_pages();
    const uint64_t count = NumPages(segment.element_count(), kPageElements);
    for (uint64_t p = 0; p < count; ++p) pages->add_server(turn++ % 2);
  }
  const uint32_t pipelines = job.workers / job.ranks;
  for (uint32_t w = 0; w < job.workers; ++w) {
    const uint32_t pipeline = w / job.ranks;
    const IndexRange part = EvenPart(job.shares, pipelines, pipeline);
    v1::WorkerPlan* worker = plan->add_worker();
    worker->set_name(absl::StrCat("w", w));
    worker->set_incarnation(1);
    worker->set_rank(w % job.ranks);
    worker->set_address(absl::StrCat("127.0.0.1:", 8080 + w));
    worker->mutable_shares()->set_begin(static_cast<uint32_t>(part.begin));
    worker->mutable_shares()->set_end(static_cast<uint32_t>(part.end));
  }
  uint32_t part = 0;
  const uint32_t parts = std::min(pipelines, job.shares);
  for (v1::WorkerPlan& worker : *plan->mutable_worker()) {
    if (worker.shares().begin() == worker.shares().end()) continue;
    worker.set_evaluation_part(part);
    worker.set_evaluation_parts(parts);
    if (worker.rank() + 1 == job.ranks) ++part;
  }
  if (phase == v1::Assignment::RUN) {
    assignment.set_steps_per_epoch(job.steps_per_epoch());
    assignment.set_steps_total(uint64_t{job.epochs} * job.steps_per_epoch());
    assignment.set_train_samples(job.train_samples);
    assignment.set_test_samples(job.test_samples);
  }
  return assignment;
}

}  // namespace sangam::testing
