#include "tests/bench/exchange_step.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/model/job_check.h"
#include "common/model/model_layout.h"
#include "common/plan/page_map.h"
#include "common/plan/span.h"
#include "common/tensor/buffer.h"
#include "common/tensor/slices.h"
#include "proto/job.pb.h"
#include "proto/plan.pb.h"
#include "proto/tensor.pb.h"
#include "server/runtime/shard_table.h"
#include "tests/bench/model_step.h"
#include "tests/testing/parameter_server.h"
#include "tests/testing/recording_sink.h"
#include "worker/rpc/grpc_parameter_link.h"
#include "worker/runtime/parameter_link.h"
#include "worker/runtime/prepared_job.h"
#include "worker/runtime/trainer.h"

namespace sangam {
namespace {

v1::JobSpec SpecOf(const ExchangeJob& job) {
  v1::JobSpec spec;
  spec.set_name("exchange");
  spec.set_seed(1);
  v1::ModelSpec* const model = spec.mutable_model();
  model->add_input_shape(job.width);
  for (uint64_t l = 0; l < job.layers; ++l) {
    v1::BlockSpec* const block = model->add_block();
    block->set_name(absl::StrCat("layer", l));
    const bool last = l + 1 == job.layers;
    block->add_layer()->mutable_linear()->set_out_features(last ? 10 : job.width);
    if (!last) block->add_layer()->mutable_relu();
  }
  spec.mutable_loss()->mutable_softmax_cross_entropy();
  spec.mutable_optimizer()->set_learning_rate(0.001f);
  spec.mutable_optimizer()->mutable_adamw();
  spec.mutable_data()->mutable_synthetic()->set_train_samples(job.batch);
  spec.mutable_batch()->set_size(job.batch);
  spec.mutable_batch()->set_micro_batches(job.micro_batches);
  spec.mutable_batch()->set_shares(1);
  spec.set_steps(job.steps);
  spec.mutable_evaluation()->set_off(true);
  SANGAM_CHECK(CheckJobSpec(spec).empty());
  return ResolveDefaults(spec);
}

v1::Assignment AssignmentOf(const ExchangeJob& job, const std::string& server_address) {
  v1::Assignment assignment;
  assignment.set_phase(v1::Assignment::PREPARE);
  *assignment.mutable_spec() = SpecOf(job);
  v1::Plan* const plan = assignment.mutable_plan();
  plan->set_job(1);
  plan->set_generation(1);
  plan->set_page_elements(job.page_elements);
  plan->set_micro_batches(job.micro_batches);
  plan->set_shares(1);
  plan->set_ranks(1);
  *plan->mutable_layout() = ValueOf(BuildModelLayout(assignment.spec().model()));
  plan->set_schema_hash(SchemaHash(assignment.spec(), plan->layout()));
  plan->add_stage()->set_block_count(static_cast<uint32_t>(job.layers));
  v1::ServerPlan* const server = plan->add_server();
  server->set_name("server-0");
  server->set_incarnation(1);
  server->set_address(server_address);
  for (const v1::SegmentLayout& segment : plan->layout().segment()) {
    v1::SegmentPages* const pages = plan->add_segment_pages();
    const uint64_t count = NumPages(segment.element_count(), job.page_elements);
    for (uint64_t p = 0; p < count; ++p) pages->add_server(0);
  }
  v1::WorkerPlan* const worker = plan->add_worker();
  worker->set_name("worker-0");
  worker->set_incarnation(1);
  worker->mutable_shares()->set_end(1);
  worker->set_evaluation_parts(1);
  return assignment;
}

v1::Assignment Running(v1::Assignment assignment, const ExchangeJob& job) {
  assignment.set_phase(v1::Assignment::RUN);
  assignment.set_steps_per_epoch(1);
  assignment.set_steps_total(job.steps);
  assignment.set_train_samples(job.batch);
  return assignment;
}

// Gives back the weights it has, all 0, as soon as a gradient comes.
class NoExchange : public ParameterLink {
 public:
  explicit NoExchange(const v1::Plan& plan) : plan_(plan) {
    for (const v1::SegmentLayout& segment : plan.layout().segment()) {
      weights_.push_back(ValueOf(FloatBuffer::Allocate(segment.element_count())));
      std::fill_n(weights_.back().data(), weights_.back().size(), 0.0f);
    }
  }
  ~NoExchange() override { CheckOk(Close(absl::ZeroDuration())); }

  absl::Status Start(const std::vector<uint32_t>& segments, uint64_t first_step,
                     WeightsReceiver* receiver) override {
    receiver_ = receiver;
    for (const uint32_t segment : segments) {
      for (uint64_t first = 0; first < weights_[segment].size(); first += plan_.page_elements()) {
        Ask({segment, first, first_step});
      }
    }
    thread_ = std::thread([this] { Answer(); });
    return absl::OkStatus();
  }

  absl::Status PushPages(uint64_t step, uint32_t segment, uint32_t, ShareSpan, uint64_t,
                         const FloatBuffer& sum, PageSpan pages) override {
    const uint64_t all = NumPages(sum.size(), plan_.page_elements());
    for (uint64_t page = pages.begin; page < std::min<uint64_t>(pages.end, all); ++page) {
      Ask({segment, page * plan_.page_elements(), step + 1});
    }
    return absl::OkStatus();
  }

  absl::Status Close(absl::Duration) override {
    {
      const MutexLock lock(&mutex_);
      closed_ = true;
      changed_.SignalAll();
    }
    if (thread_.joinable()) thread_.join();
    return absl::OkStatus();
  }

 private:
  struct Asked {
    uint32_t segment = 0;
    uint64_t first_element = 0;  // of the page
    uint64_t step = 0;
  };

  void Ask(Asked asked) {
    const MutexLock lock(&mutex_);
    asked_.push_back(asked);
    changed_.SignalAll();
  }

  void Answer() {
    while (true) {
      Asked asked;
      {
        MutexLock lock(&mutex_);
        while (asked_.empty() && !closed_) changed_.WaitFor(&mutex_, absl::Seconds(1));
        if (closed_) return;
        asked = asked_.front();
        asked_.pop_front();
      }
      Send(asked);
    }
  }

  void Send(const Asked& asked) {
    const FloatBuffer& weights = weights_[asked.segment];
    v1::FrameHeader header;
    header.set_kind(v1::FRAME_KIND_WEIGHTS);
    header.set_encoding(v1::ENCODING_FP32);
    header.set_job(plan_.job());
    header.set_generation(plan_.generation());
    header.set_segment(asked.segment);
    header.set_step(asked.step);
    const uint64_t first = asked.first_element;
    const uint64_t count = std::min<uint64_t>(plan_.page_elements(), weights.size() - first);
    header.set_first_element(first);
    header.set_element_count(count);
    CheckOk(receiver_->OnWeights(header, SlicePayload::FromFloats(weights, first, count)));
  }

  const v1::Plan plan_;
  std::vector<FloatBuffer> weights_;
  WeightsReceiver* receiver_ = nullptr;
  std::thread thread_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<Asked> asked_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

// Notes when the last gradient of each step leaves.
class Watched : public ParameterLink {
 public:
  Watched(std::unique_ptr<ParameterLink> link, uint64_t page_elements, std::vector<double>* times)
      : link_(std::move(link)), page_elements_(page_elements), times_(times) {}

  absl::Status Start(const std::vector<uint32_t>& segments, uint64_t first_step,
                     WeightsReceiver* receiver) override {
    return link_->Start(segments, first_step, receiver);
  }
  absl::Status PushPages(uint64_t step, uint32_t segment, uint32_t use, ShareSpan span,
                         uint64_t samples, const FloatBuffer& sum, PageSpan pages) override {
    // The end of the segment goes last.
    const uint64_t all = NumPages(sum.size(), page_elements_);
    if (segment == 0 && pages.end >= all) {
      times_->push_back(absl::ToDoubleSeconds(Clock::Real().Steady()));
    }
    return link_->PushPages(step, segment, use, span, samples, sum, pages);
  }
  absl::Status Close(absl::Duration deadline) override { return link_->Close(deadline); }

 private:
  std::unique_ptr<ParameterLink> link_;
  const uint64_t page_elements_;
  std::vector<double>* times_;
};

double MedianStep(const std::vector<double>& times) {
  // Graphs are recorded in the first steps; in step 5 each block is waited for.
  constexpr size_t kFirst = 8;
  std::vector<double> steps;
  for (size_t i = std::min(kFirst, times.size() / 2) + 1; i < times.size(); ++i) {
    steps.push_back(times[i] - times[i - 1]);
  }
  SANGAM_CHECK(!steps.empty());
  std::sort(steps.begin(), steps.end());
  return steps[steps.size() / 2];
}

}  // namespace

double SecondsOfStep(const ExchangeJob& job, Exchange exchange) {
  SANGAM_CHECK(SetLogLevel("warning").ok());
  ShardTable table("server-0");
  const auto server = ParameterServer::Start({}, [&table](uint64_t id) { return table.Find(id); });
  SANGAM_CHECK(server != nullptr);
  const v1::Assignment assignment = AssignmentOf(job, server->address());
  const v1::Assignment running = Running(assignment, job);
  PrepareOptions prepare;
  prepare.backend = job.backend;
  prepare.graphs = job.graphs;
  const std::unique_ptr<PreparedJob> prepared = ValueOf(PrepareJob(assignment, 0, prepare));
  testing::RecordingSink sink;
  const std::unique_ptr<Trainer> trainer =
      ValueOf(Trainer::Create(prepared.get(), running, {}, &sink, nullptr));
  if (exchange == Exchange::kServer) {
    table.Reconcile({assignment});
    table.Reconcile({running});
  }
  std::vector<double> times;
  CheckOk(trainer->Run(
      [&](const v1::Plan& plan, uint32_t worker) -> absl::StatusOr<std::unique_ptr<ParameterLink>> {
        std::unique_ptr<ParameterLink> link;
        if (exchange == Exchange::kServer) {
          link = ValueOf(GrpcParameterLink::Create(plan, worker, {}));
        } else {
          link = std::make_unique<NoExchange>(plan);
        }
        return std::make_unique<Watched>(std::move(link), plan.page_elements(), &times);
      }));
  return MedianStep(times);
}

uint64_t NumParameters(const ExchangeJob& job) {
  uint64_t parameters = 0;
  const v1::ModelLayout layout = ValueOf(BuildModelLayout(SpecOf(job).model()));
  for (const v1::SegmentLayout& segment : layout.segment()) parameters += segment.element_count();
  return parameters;
}

}  // namespace sangam
