#include "worker/rpc/grpc_parameter_link.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/plan/page_map.h"
#include "common/plan/span.h"
#include "common/tensor/buffer.h"
#include "common/tensor/slices.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/plan.pb.h"
#include "proto/tensor.pb.h"
#include "server/runtime/shard_table.h"
#include "tests/testing/cutting_proxy.h"
#include "tests/testing/parameter_server.h"
#include "tests/testing/wire_job.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kWait = absl::Seconds(30);

// Keeps the newest weights of every segment.
class Receiver : public WeightsReceiver {
 public:
  explicit Receiver(const v1::Plan& plan) {
    for (const v1::SegmentLayout& segment : plan.layout().segment()) {
      weights_.emplace_back(segment.element_count());
      steps_.emplace_back(NumPages(segment.element_count(), plan.page_elements()), -1);
    }
    page_elements_ = plan.page_elements();
  }

  absl::Status OnWeights(const v1::FrameHeader& header, const SlicePayload& elements) override {
    MutexLock lock(&mutex_);
    if (refuse_) return absl::InternalError("no room");
    EXPECT_FALSE(failed_.has_value());
    int64_t& step = steps_[header.segment()][header.first_element() / page_elements_];
    EXPECT_LT(step, static_cast<int64_t>(header.step()));
    step = static_cast<int64_t>(header.step());
    elements.CopyTo(weights_[header.segment()].data() + header.first_element());
    order_.push_back(header.segment());
    changed_.SignalAll();
    return absl::OkStatus();
  }

  void OnLinkFailed(const absl::Status& status) override {
    MutexLock lock(&mutex_);
    EXPECT_FALSE(failed_.has_value());
    failed_ = status;
    changed_.SignalAll();
  }

  // Whether every page of the segments [begin, end) came to `step`.
  bool WaitForStep(uint64_t step, size_t begin = 0, size_t end = SIZE_MAX) {
    return Wait([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      for (size_t s = begin; s < std::min(end, steps_.size()); ++s) {
        for (const int64_t have : steps_[s]) {
          if (have < static_cast<int64_t>(step)) return false;
        }
      }
      return true;
    });
  }

  absl::Status WaitForFailure() {
    Wait([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return failed_.has_value(); });
    MutexLock lock(&mutex_);
    return failed_.value_or(absl::OkStatus());
  }

  void Refuse() {
    MutexLock lock(&mutex_);
    refuse_ = true;
  }

  std::vector<std::vector<float>> weights() {
    MutexLock lock(&mutex_);
    return weights_;
  }
  std::vector<uint32_t> TakeOrder() {
    MutexLock lock(&mutex_);
    return std::exchange(order_, {});
  }
  bool failed() {
    MutexLock lock(&mutex_);
    return failed_.has_value();
  }

 private:
  bool Wait(const std::function<bool()>& condition) {
    const absl::Duration until = Clock::Real().Steady() + kWait;
    MutexLock lock(&mutex_);
    while (!condition()) {
      const absl::Duration left = until - Clock::Real().Steady();
      if (left <= absl::ZeroDuration()) return false;
      changed_.WaitFor(&mutex_, left);
    }
    return true;
  }

  uint64_t page_elements_ = 0;
  Mutex mutex_;
  CondVar changed_;
  std::vector<std::vector<float>> weights_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::vector<int64_t>> steps_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint32_t> order_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Status> failed_ ABSL_GUARDED_BY(mutex_);
  bool refuse_ ABSL_GUARDED_BY(mutex_) = false;
};

// A gradient that depends on everything that it should: weights, step, segment, span and use.
FloatBuffer Gradient(const std::vector<float>& weights, uint64_t step, uint32_t segment,
                     ShareSpan span, uint32_t use = 0) {
  FloatBuffer buffer = FloatBuffer::Allocate(weights.size()).value();
  for (size_t i = 0; i < weights.size(); ++i) {
    buffer.data()[i] = weights[i] * (0.3f + 0.1f * static_cast<float>(span.begin)) +
                       0.01f * static_cast<float>((i * 7 + step * 3 + segment + 5 * use) % 11);
  }
  return buffer;
}

uint32_t Uses(const v1::Plan& plan, uint32_t segment) {
  return static_cast<uint32_t>(plan.layout().segment(static_cast<int>(segment)).use_size());
}

// The servers of a job in this process, each of which can be stopped and started again.
class Cluster {
 public:
  explicit Cluster(WireJob job) : job_(std::move(job)) {
    options_.check_interval = absl::Milliseconds(20);
    for (size_t i = 0; i < job_.servers.size(); ++i) {
      tables_.push_back(std::make_unique<ShardTable>(absl::StrCat("server-", i)));
      servers_.emplace_back();
      ports_.push_back(0);
      StartServer(i);
      job_.servers[i] = servers_[i]->address();
    }
    Assign();
  }

  void Assign() {
    assignment_ = MakeAssignment(job_);
    for (const auto& table : tables_) {
      table->Reconcile({assignment_});
      table->Reconcile({Running(assignment_)});
    }
  }

  void StartServer(size_t i) {
    servers_[i] = ParameterServer::Start(
        options_, [table = tables_[i].get()](uint64_t job) { return table->Find(job); }, ports_[i]);
    ASSERT_NE(servers_[i], nullptr);
    ports_[i] = servers_[i]->port();
  }
  void StopServer(size_t i) { servers_[i].reset(); }

  // What the servers have, put together.
  std::vector<std::vector<float>> Weights() const {
    std::vector<std::vector<float>> all;
    for (const v1::SegmentLayout& segment : plan().layout().segment()) {
      all.emplace_back(segment.element_count());
    }
    for (const auto& table : tables_) {
      for (const PageWeights& page : (*table->Find(job_.job))->ReadWeights()) {
        page.elements.CopyTo(all[page.header.segment()].data() + page.header.first_element());
      }
    }
    return all;
  }

  const v1::Plan& plan() const { return assignment_.plan(); }
  WireJob& job() { return job_; }
  ShardTable& table(size_t i) { return *tables_[i]; }
  int port(size_t i) const { return ports_[i]; }

 private:
  WireJob job_;
  v1::Assignment assignment_;
  ParameterService::Options options_;
  std::vector<std::unique_ptr<ShardTable>> tables_;
  std::vector<std::unique_ptr<ParameterServer>> servers_;
  std::vector<int> ports_;
};

// The same training without any network: gradients straight into a shard of all pages.
std::vector<std::vector<float>> TrainDirectly(WireJob job, uint64_t steps) {
  job.servers = {""};
  const v1::Assignment assignment = MakeAssignment(job);
  ShardTable table("server-0");
  table.Reconcile({assignment});
  table.Reconcile({Running(assignment)});
  const std::shared_ptr<ParameterShard> shard = table.Find(job.job).value();
  const PageMap map = PageMap::Create(assignment.plan()).value();
  std::vector<std::vector<float>> weights;
  for (const uint64_t elements : job.segments) weights.emplace_back(elements);
  for (uint64_t step = 0; step <= steps; ++step) {
    for (const PageWeights& page : shard->ReadWeights()) {
      page.elements.CopyTo(weights[page.header.segment()].data() + page.header.first_element());
    }
    if (step == steps) break;
    for (uint32_t share = 0; share < job.shares; ++share) {
      for (uint32_t s = 0; s < weights.size(); ++s) {
        for (uint32_t frame = 0; frame < Uses(assignment.plan(), s) * map.pages(s).size();
             ++frame) {
          const uint32_t use = frame % Uses(assignment.plan(), s);
          const PageRange& page = map.pages(s)[frame / Uses(assignment.plan(), s)];
          const FloatBuffer sum = Gradient(weights[s], step, s, {share, share + 1}, use);
          v1::FrameHeader header;
          header.set_job(job.job);
          header.set_generation(job.generation);
          header.set_step(step);
          header.set_segment(s);
          header.set_first_element(page.first_element);
          header.set_element_count(page.element_count);
          header.set_span_begin(share);
          header.set_span_end(share + 1);
          header.set_samples(share + 1);
          header.set_use(use);
          header.set_encoding(v1::ENCODING_FP32);
          header.set_kind(v1::FRAME_KIND_GRADIENT);
          EXPECT_TRUE(shard
                          ->AddGradient(header, SlicePayload::FromFloats(sum, page.first_element,
                                                                         page.element_count))
                          .ok());
        }
      }
    }
  }
  return weights;
}

struct Worker {
  Worker(const v1::Plan& plan, uint32_t index, const GrpcParameterLink::Options& options = {})
      : shares{plan.worker(index).shares().begin(), plan.worker(index).shares().end()},
        receiver(plan),
        link(GrpcParameterLink::Create(plan, index, options).value()) {
    for (int s = 0; s < plan.layout().segment_size(); ++s) {
      segments.push_back(s);
      uses.push_back(Uses(plan, segments.back()));
    }
  }

  absl::Status Start(uint64_t first_step = 0) {
    return link->Start(segments, first_step, &receiver);
  }

  // One gradient for each share and use; the last segment and use first, as backward does.
  absl::Status Push(uint64_t step, const std::vector<std::vector<float>>& weights) {
    for (uint32_t share = shares.begin; share < shares.end; ++share) {
      for (size_t n = weights.size(); n > 0; --n) {
        const uint32_t s = static_cast<uint32_t>(n - 1);
        for (uint32_t use = uses[s]; use-- > 0;) {
          const ShareSpan span{share, share + 1};
          const absl::Status status = link->PushGradient(step, s, use, span, share + 1,
                                                         Gradient(weights[s], step, s, span, use));
          if (!status.ok()) return status;
        }
      }
    }
    return absl::OkStatus();
  }

  ShareSpan shares;
  std::vector<uint32_t> segments;
  std::vector<uint32_t> uses;  // of each segment
  Receiver receiver;
  std::unique_ptr<ParameterLink> link;
};

GrpcParameterLink::Options FastRetries() {
  GrpcParameterLink::Options options;
  options.backoff = {absl::Milliseconds(2), absl::Milliseconds(50)};
  return options;
}

WireJob TwoByTwo() {
  WireJob job;
  job.segments = {1000, 50, 3000};
  job.uses = {3, 1, 1};
  job.page_elements = 256;
  job.shares = 2;
  job.workers = 2;
  job.servers = {"", ""};
  return job;
}

// Trains `steps` steps on all workers; `between(step)` runs when the gradients of half of the
// workers are out.
void Train(const std::vector<std::unique_ptr<Worker>>& workers, uint64_t steps,
           const std::function<void(uint64_t)>& between) {
  for (const auto& worker : workers) ASSERT_TRUE(worker->Start().ok());
  for (uint64_t step = 0; step < steps; ++step) {
    for (const auto& worker : workers) ASSERT_TRUE(worker->receiver.WaitForStep(step)) << step;
    for (size_t i = 0; i < workers.size(); ++i) {
      const auto weights = workers[i]->receiver.weights();
      ASSERT_TRUE(workers[i]->Push(step, weights).ok());
      if (i == 0) between(step);
    }
  }
  for (const auto& worker : workers) {
    ASSERT_TRUE(worker->receiver.WaitForStep(steps));
    EXPECT_FALSE(worker->receiver.failed());
  }
}

TEST(GrpcParameterLinkTest, TrainsOnTwoServersWithTwoWorkersBitForBit) {
  Cluster cluster(TwoByTwo());
  std::vector<std::unique_ptr<Worker>> workers;
  for (uint32_t i = 0; i < 2; ++i) workers.push_back(std::make_unique<Worker>(cluster.plan(), i));
  Train(workers, 5, [](uint64_t) {});
  const auto expected = TrainDirectly(cluster.job(), 5);
  for (const auto& worker : workers) {
    EXPECT_EQ(worker->receiver.weights(), expected);
    EXPECT_TRUE(worker->link->Close(absl::Seconds(10)).ok());
  }
  EXPECT_EQ(cluster.Weights(), expected);
}

TEST(GrpcParameterLinkTest, ServerStoppedAndStartedAgainInEveryStepChangesNoBit) {
  Cluster cluster(TwoByTwo());
  std::vector<std::unique_ptr<Worker>> workers;
  for (uint32_t i = 0; i < 2; ++i) {
    workers.push_back(std::make_unique<Worker>(cluster.plan(), i, FastRetries()));
  }
  Train(workers, 6, [&](uint64_t step) {
    cluster.StopServer(step % 2);
    cluster.StartServer(step % 2);
  });
  const auto expected = TrainDirectly(cluster.job(), 6);
  for (const auto& worker : workers) EXPECT_EQ(worker->receiver.weights(), expected);
  EXPECT_EQ(cluster.Weights(), expected);
}

// Connections are cut after any number of bytes, in the middle of whatever is on its way.
TEST(GrpcParameterLinkTest, ConnectionsCutAnywhereChangeNoBit) {
  constexpr int kCuts = 25;
  WireJob job = TwoByTwo();
  job.segments = {20000, 50, 60000};
  job.page_elements = 4096;
  Cluster cluster(job);
  const auto expected = TrainDirectly(job, 8);
  std::vector<std::unique_ptr<CuttingProxy>> proxies;
  v1::Plan plan = cluster.plan();
  for (int i = 0; i < 2; ++i) {
    proxies.push_back(std::make_unique<CuttingProxy>(cluster.port(i), 17 + i, kCuts, 300'000));
    plan.mutable_server(i)->set_address(proxies[i]->address());
  }
  std::vector<std::unique_ptr<Worker>> workers;
  for (uint32_t i = 0; i < 2; ++i) {
    workers.push_back(std::make_unique<Worker>(plan, i, FastRetries()));
  }
  Train(workers, 8, [](uint64_t) {});
  for (const auto& worker : workers) EXPECT_EQ(worker->receiver.weights(), expected);
  EXPECT_EQ(cluster.Weights(), expected);
  EXPECT_GT(proxies[0]->num_cut() + proxies[1]->num_cut(), 10);
}

TEST(GrpcParameterLinkTest, BufferIsHeldUntilTheServersHaveAnswered) {
  WireJob job = TwoByTwo();
  job.segments = {1000};
  job.uses = {};
  Cluster cluster(job);
  Worker first(cluster.plan(), 0);
  Worker second(cluster.plan(), 1);
  ASSERT_TRUE(first.Start().ok());
  ASSERT_TRUE(second.Start().ok());
  ASSERT_TRUE(first.receiver.WaitForStep(0));
  FloatBuffer sum = Gradient(first.receiver.weights()[0], 0, 0, {0, 1});
  ASSERT_TRUE(first.link->PushGradient(0, 0, 0, {0, 1}, 1, sum).ok());
  EXPECT_FALSE(sum.unique());
  // Half of the gradient makes no update, so nothing answers.
  ASSERT_TRUE(second.receiver.WaitForStep(0));
  EXPECT_FALSE(sum.unique());
  ASSERT_TRUE(second.Push(0, second.receiver.weights()).ok());
  ASSERT_TRUE(first.receiver.WaitForStep(1));
  ASSERT_TRUE(first.link->Close(absl::Seconds(10)).ok());
  EXPECT_TRUE(sum.unique());
}

TEST(GrpcParameterLinkTest, LowerSegmentsGoFirstWhenSeveralWait) {
  WireJob job;
  job.segments = {100, 100, 100, 100};
  job.page_elements = 100;
  Cluster cluster(job);
  Worker worker(cluster.plan(), 0);
  // While the server is away gradients can only wait.
  cluster.StopServer(0);
  ASSERT_TRUE(worker.Start().ok());
  const std::vector<std::vector<float>> weights(4, std::vector<float>(100, 1.0f));
  ASSERT_TRUE(worker.Push(0, weights).ok());
  cluster.StartServer(0);
  ASSERT_TRUE(worker.receiver.WaitForStep(1));
  std::vector<uint32_t> answers;
  for (const uint32_t segment : worker.receiver.TakeOrder()) answers.push_back(segment);
  // First the weights of step 0, then the answers.
  ASSERT_GE(answers.size(), 4);
  EXPECT_EQ(std::vector<uint32_t>(answers.end() - 4, answers.end()),
            (std::vector<uint32_t>{0, 1, 2, 3}));
}

TEST(GrpcParameterLinkTest, StartsAtALaterStep) {
  WireJob job;
  job.segments = {200};
  Cluster cluster(job);
  Worker first(cluster.plan(), 0);
  ASSERT_TRUE(first.Start().ok());
  for (uint64_t step = 0; step < 3; ++step) {
    ASSERT_TRUE(first.receiver.WaitForStep(step));
    ASSERT_TRUE(first.Push(step, first.receiver.weights()).ok());
  }
  ASSERT_TRUE(first.receiver.WaitForStep(3));
  ASSERT_TRUE(first.link->Close(absl::Seconds(10)).ok());
  Worker second(cluster.plan(), 0);
  ASSERT_TRUE(second.Start(3).ok());
  ASSERT_TRUE(second.receiver.WaitForStep(3));
  EXPECT_EQ(second.receiver.weights(), TrainDirectly(job, 3));
}

TEST(GrpcParameterLinkTest, UnreachableServerFailsTheLinkAndSaysWhatWasTried) {
  WireJob job = TwoByTwo();
  Cluster cluster(job);
  cluster.StopServer(1);
  GrpcParameterLink::Options options = FastRetries();
  options.connect_deadline = absl::Milliseconds(300);
  Worker worker(cluster.plan(), 0, options);
  ASSERT_TRUE(worker.Start().ok());
  const absl::Status status = worker.receiver.WaitForFailure();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("server 'server-1' at 127.0.0.1:"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("no working stream for "));
  EXPECT_THAT(std::string(status.message()), HasSubstr("tried"));
  EXPECT_EQ(
      worker.link->PushGradient(0, 0, 0, {0, 1}, 1, FloatBuffer::Allocate(1000).value()).code(),
      absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(worker.link->Close(absl::Seconds(10)).code(), absl::StatusCode::kUnavailable);
}

TEST(GrpcParameterLinkTest, RefusalFailsTheLinkAtOnce) {
  WireJob job;
  Cluster cluster(job);
  v1::Plan plan = cluster.plan();
  plan.set_generation(0);
  Worker worker(plan, 0);
  ASSERT_TRUE(worker.Start().ok());
  const absl::Status status = worker.receiver.WaitForFailure();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("server 'server-0'"));
}

TEST(GrpcParameterLinkTest, JobThatVanishesFailsTheLink) {
  WireJob job;
  Cluster cluster(job);
  Worker worker(cluster.plan(), 0);
  ASSERT_TRUE(worker.Start().ok());
  ASSERT_TRUE(worker.receiver.WaitForStep(0));
  cluster.table(0).Reconcile({});
  EXPECT_EQ(worker.receiver.WaitForFailure().code(), absl::StatusCode::kNotFound);
}

TEST(GrpcParameterLinkTest, ReceiversErrorEndsTheLink) {
  WireJob job;
  Cluster cluster(job);
  Worker worker(cluster.plan(), 0);
  worker.receiver.Refuse();
  ASSERT_TRUE(worker.Start().ok());
  const absl::Status status = worker.receiver.WaitForFailure();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("no room"));
}

TEST(GrpcParameterLinkTest, WrongUseIsRefused) {
  WireJob job = TwoByTwo();
  Cluster cluster(job);
  EXPECT_EQ(GrpcParameterLink::Create(cluster.plan(), 2, {}).status().code(),
            absl::StatusCode::kInvalidArgument);
  v1::Plan broken = cluster.plan();
  broken.mutable_segment_pages(0)->add_server(0);
  EXPECT_EQ(GrpcParameterLink::Create(broken, 0, {}).status().code(),
            absl::StatusCode::kInvalidArgument);

  Worker worker(cluster.plan(), 0);
  const FloatBuffer sum = FloatBuffer::Allocate(1000).value();
  EXPECT_EQ(worker.link->PushGradient(0, 0, 0, {0, 1}, 1, sum).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(worker.link->Start({7}, 0, &worker.receiver).code(),
            absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(worker.link->Start({0}, 0, &worker.receiver).ok());
  EXPECT_EQ(worker.link->Start({0}, 0, &worker.receiver).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(worker.link->PushGradient(0, 2, 0, {0, 1}, 1, sum).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(
      worker.link->PushGradient(0, 0, 0, {0, 1}, 1, FloatBuffer::Allocate(999).value()).code(),
      absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(worker.link->PushGradient(0, 0, 3, {0, 1}, 1, sum).message()),
              HasSubstr("use of segment 0: found 3, expected less than 3"));
  // Two steps of the one span that this worker has may be unanswered.
  for (const PageSpan pages : {PageSpan{1, 1}, PageSpan{0, 1000}, PageSpan{1000, 1001}}) {
    const absl::Status status = worker.link->PushPages(0, 0, 0, {0, 1}, 1, sum, pages);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << pages.begin;
  }
  EXPECT_TRUE(worker.link->PushGradient(0, 0, 0, {0, 1}, 1, sum).ok());
  ASSERT_TRUE(worker.link->Close(absl::Seconds(10)).ok());
  EXPECT_EQ(worker.link->PushGradient(1, 0, 0, {0, 1}, 1, sum).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(worker.link->Close(absl::Seconds(10)).ok());
}

TEST(GrpcParameterLinkTest, EveryUseOfTwoStepsMayBeUnansweredAndNoMore) {
  WireJob job = TwoByTwo();
  job.servers = {"127.0.0.1:1", "127.0.0.1:1"};  // nobody answers
  const v1::Plan plan = MakeAssignment(job).plan();
  Worker worker(plan, 0);
  ASSERT_TRUE(worker.link->Start({0}, 0, &worker.receiver).ok());
  const FloatBuffer sum = FloatBuffer::Allocate(1000).value();
  for (uint64_t step = 0; step < 2; ++step) {
    for (uint32_t use = 0; use < 3; ++use) {
      EXPECT_TRUE(worker.link->PushGradient(step, 0, use, {0, 1}, 1, sum).ok());
    }
  }
  EXPECT_EQ(worker.link->PushGradient(2, 0, 0, {0, 1}, 1, sum).code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(GrpcParameterLinkTest, CloseWithoutAServerEndsSoon) {
  WireJob job;
  Cluster cluster(job);
  cluster.StopServer(0);
  Worker worker(cluster.plan(), 0);
  ASSERT_TRUE(worker.Start().ok());
  const absl::Duration before = Clock::Real().Steady();
  // What it ends with depends on where the tries stand; it is late or there is nobody to half-close
  // to, which is no error when nothing waits for an answer.
  const absl::Status status = worker.link->Close(absl::Milliseconds(100));
  EXPECT_TRUE(status.ok() || absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status))
      << status;
  EXPECT_LT(Clock::Real().Steady() - before, absl::Seconds(20));
  EXPECT_FALSE(worker.receiver.failed());
}

}  // namespace
}  // namespace sangam
