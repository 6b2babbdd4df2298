#include "worker/runtime/trainer.h"

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/plan/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/cluster_service.pb.h"
#include "proto/job.pb.h"
#include "proto/model.pb.h"
#include "proto/plan.pb.h"
#include "tests/testing/idx_files.h"
#include "tests/testing/recording_sink.h"
#include "tests/testing/reference_trainer.h"
#include "tests/testing/worker_job.h"
#include "tests/worker/runtime/training_test.h"

namespace sangam {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::Outcome;
using testing::WorkerJob;

class TrainerTest : public testing::TrainingTest {};

TEST_F(TrainerTest, OneJobOneResultForAnyNumberOfWorkersAndLanes) {
  struct Cut {
    uint32_t micro_batches, shares, batch, train_samples;
    float dropout;
  };
  // Ragged last batches: 70 = 3 x 20 + 10; 63 = 3 x 20 + 3, fewer samples than micro-batches.
  const std::vector<Cut> cuts = {{8, 8, 20, 70, 0},    {8, 3, 20, 70, 0.4f}, {5, 5, 20, 63, 0.4f},
                                 {1, 1, 20, 70, 0.4f}, {7, 2, 20, 63, 0},    {20, 6, 20, 61, 0.4f}};
  for (const Cut& cut : cuts) {
    WorkerJob job;
    job.micro_batches = cut.micro_batches;
    job.shares = cut.shares;
    job.batch = cut.batch;
    job.train_samples = cut.train_samples;
    job.dropout = cut.dropout;
    const Outcome alone = Train(job, 1);
    // With a worker for each share none are computed together.
    for (const uint32_t workers : std::set<uint32_t>{1, 2, 3, cut.shares}) {
      for (uint32_t threads = 1; threads <= 3; ++threads) {
        job.workers = workers;
        EXPECT_TRUE(Train(job, threads) == alone)
            << "M=" << cut.micro_batches << " S=" << cut.shares << " workers=" << workers
            << " threads=" << threads;
      }
    }
  }
}

TEST_F(TrainerTest, OneJobOneResultForEveryScheduleAndPipeline) {
  WorkerJob job;
  job.deep = true;
  job.dropout = 0.3f;
  job.train_samples = 63;  // 3 x 20 + 3: micro-batches without samples
  struct Cut {
    uint32_t micro_batches, shares;
  };
  for (const Cut cut : std::vector<Cut>{{1, 1}, {2, 2}, {3, 3}, {8, 8}, {8, 3}, {20, 6}}) {
    job.micro_batches = cut.micro_batches;
    job.shares = cut.shares;
    job.workers = job.ranks = job.chunks = 1;
    job.lanes = 0;
    job.schedule = v1::ONE_F_ONE_B;
    const Outcome alone = Train(job, 1);
    for (const v1::Schedule schedule :
         {v1::GPIPE, v1::ONE_F_ONE_B, v1::INTERLEAVED, v1::ZERO_BUBBLE, v1::EAGER_ONE_F_ONE_B}) {
      for (uint32_t ranks = 2; ranks <= 4; ++ranks) {
        for (uint32_t pipelines = 1; pipelines <= 2; ++pipelines) {
          job.schedule = schedule;
          job.ranks = ranks;
          job.workers = ranks * pipelines;
          job.chunks = schedule == v1::INTERLEAVED ? 2 : 1;
          job.credits = 16;  // enough for every schedule and skip connection
          // Two lanes where the shares of a pipeline suffice.
          job.lanes = cut.shares / pipelines >= 2 ? 2 : 1;
          EXPECT_TRUE(Train(job, 1) == alone)
              << v1::Schedule_Name(schedule) << " M=" << cut.micro_batches << " S=" << cut.shares
              << " ranks=" << ranks << " pipelines=" << pipelines;
        }
      }
    }
  }
}

// Statistics of norms are those of micro-batches, wherever these are computed.
TEST_F(TrainerTest, OneJobOneResultForANetworkOverImages) {
  WorkerJob job;
  job.cnn = true;
  job.dropout = 0.2f;
  job.train_samples = 63;  // 3 x 20 + 3: micro-batches without samples
  struct Cut {
    uint32_t micro_batches, shares;
  };
  for (const Cut cut : std::vector<Cut>{{8, 8}, {7, 3}}) {
    job.micro_batches = cut.micro_batches;
    job.shares = cut.shares;
    job.ranks = job.chunks = 1;
    job.lanes = 0;
    job.schedule = v1::ONE_F_ONE_B;
    job.workers = 1;
    const Outcome alone = Train(job, 1);
    for (uint32_t workers = 1; workers <= 3; ++workers) {
      job.workers = workers;
      EXPECT_TRUE(Train(job, 2) == alone) << "S=" << cut.shares << " workers=" << workers;
    }
    for (const v1::Schedule schedule :
         {v1::GPIPE, v1::ONE_F_ONE_B, v1::INTERLEAVED, v1::ZERO_BUBBLE, v1::EAGER_ONE_F_ONE_B}) {
      for (uint32_t ranks = 2; ranks <= 3; ++ranks) {
        for (uint32_t pipelines = 1; pipelines <= 2; ++pipelines) {
          job.schedule = schedule;
          job.ranks = ranks;
          job.workers = ranks * pipelines;
          job.chunks = schedule == v1::INTERLEAVED ? 2 : 1;
          job.credits = 16;
          job.lanes = pipelines == 1 ? 2 : 1;
          EXPECT_TRUE(Train(job, 1) == alone) << v1::Schedule_Name(schedule) << " S=" << cut.shares
                                              << " ranks=" << ranks << " pipelines=" << pipelines;
        }
      }
    }
  }
}

TEST_F(TrainerTest, CutStreamsBetweenStagesChangeNothing) {
  WorkerJob job;
  job.deep = true;
  job.epochs = 4;
  const Outcome alone = Train(job, 1);
  job.ranks = job.workers = 3;
  job.lanes = 1;
  Prepare(job, 1);
  std::atomic<bool> done{false};
  std::thread cutter([&] {
    for (uint64_t step = 2; !done && step < 14; step += 3) {
      EXPECT_TRUE(server_->AwaitPushOf(step));
      network_.Cut();
    }
  });
  for (const absl::Status& status : RunAll()) EXPECT_TRUE(status.ok()) << status;
  done = true;
  cutter.join();
  EXPECT_TRUE(Collect() == alone);
}

TEST_F(TrainerTest, AFailedNeighbourEndsTheRunWithItsReason) {
  WorkerJob job;
  job.deep = true;
  job.epochs = 1'000'000;
  job.ranks = job.workers = 3;
  job.lanes = 1;
  Prepare(job, 1);
  std::thread killer([&] {
    EXPECT_TRUE(server_->AwaitPushOf(5));
    for (uint32_t w = 0; w < 3; ++w) {
      network_.Fail(w, absl::UnavailableError("worker w1 (127.0.0.1:8081) cannot be reached"));
    }
  });
  for (const absl::Status& status : RunAll()) {
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("worker w1 (127.0.0.1:8081) cannot be reached"));
  }
  killer.join();
}

TEST_F(TrainerTest, OnlyTheLastStageReportsLossesAndEveryStageTraces) {
  WorkerJob job;
  job.deep = true;
  job.ranks = job.workers = 2;
  job.lanes = 1;
  job.schedule = v1::ZERO_BUBBLE;
  Train(job, 1);
  for (size_t w = 0; w < 2; ++w) {
    std::map<v1::JobReport::KindCase, int> kinds;
    std::set<v1::Activity> activities;
    for (const auto& entry : workers_[w]->sink.entries()) {
      ++kinds[entry.report.kind_case()];
      for (const v1::TraceEvent& event : entry.report.trace().event()) {
        activities.insert(event.activity());
      }
    }
    EXPECT_EQ(kinds[v1::JobReport::kStep], w == 1 ? 8 : 0);
    EXPECT_EQ(kinds[v1::JobReport::kEvaluation], w == 1 ? 2 : 0);
    EXPECT_EQ(kinds[v1::JobReport::kTrace], 8);
    EXPECT_EQ(kinds[v1::JobReport::kBlockTimes], 1);
    for (const v1::Activity activity : {v1::FORWARD, v1::BACKWARD, v1::WEIGHT_GRADIENT, v1::SEND,
                                        v1::RECEIVE, v1::WAIT, v1::PUSH, v1::LOAD}) {
      EXPECT_EQ(activities.count(activity), 1) << v1::Activity_Name(activity) << " of worker " << w;
    }
    EXPECT_EQ(activities.count(v1::LOSS), w);
  }
}

// That all clusters agree does not make them right: the same job in plain loops, one sample after
// the other, in double precision.
TEST_F(TrainerTest, MatchesPlainLoops) {
  WorkerJob job;
  job.workers = 2;
  job.shares = 3;  // several micro-batches accumulate in a share
  job.train_samples = 63;
  job.dropout = 0.3f;
  const Outcome outcome = Train(job, 2);
  const v1::JobSpec& spec = workers_[0]->job->spec;
  const testing::ReferenceResult expected = testing::TrainReference(
      spec, testing::MakeImages(1, 63, 6, 6, 5), testing::MakeImages(2, 23, 6, 6, 5));

  const v1::ModelLayout& layout = workers_[0]->job->plan.layout();
  for (int s = 0; s < layout.segment_size(); ++s) {
    for (const v1::ParameterLayout& parameter : layout.segment(s).parameter()) {
      const std::vector<double>& values = expected.parameters.at(parameter.name());
      for (uint64_t e = 0; e < parameter.element_count(); ++e) {
        EXPECT_NEAR(outcome.weights[s][parameter.offset() + e], values[e], 1e-4)
            << parameter.name() << "[" << e << "]";
      }
    }
  }
  std::map<uint64_t, std::pair<double, uint64_t>> steps;  // loss, samples
  for (const auto& [key, loss] : outcome.losses) {
    steps[key.first].first += loss.first;
    steps[key.first].second += loss.second;
  }
  ASSERT_EQ(steps.size(), expected.step_losses.size());
  for (const auto& [step, sums] : steps) {
    EXPECT_NEAR(sums.first / static_cast<double>(sums.second), expected.step_losses[step], 1e-4);
  }
  uint64_t correct = 0;
  double loss = 0;
  for (const auto& [key, score] : outcome.scores) {
    if (key.first != steps.size()) continue;
    correct += std::get<1>(score);
    loss += std::get<2>(score);
  }
  EXPECT_EQ(correct, expected.correct);
  EXPECT_NEAR(loss / 23, expected.test_loss, 1e-4);
}

TEST_F(TrainerTest, ReportsEveryShareOfEveryStepAndEveryEvaluation) {
  WorkerJob job;
  job.workers = 2;
  const Outcome outcome = Train(job, 2);
  ASSERT_EQ(outcome.losses.size(), 8 * 8);  // 2 epochs of 4 steps, 8 shares
  std::map<uint64_t, uint64_t> samples;
  for (const auto& [key, loss] : outcome.losses) samples[key.first] += loss.second;
  for (uint64_t step = 0; step < 8; ++step) EXPECT_EQ(samples[step], step % 4 == 3 ? 10 : 20);
  // After each epoch: steps 4 and 8; 23 samples in chunks of 3.
  ASSERT_EQ(outcome.scores.size(), 2 * 8);
  std::map<uint64_t, uint64_t> scored;
  for (const auto& [key, score] : outcome.scores) scored[key.first] += std::get<0>(score);
  EXPECT_EQ(scored, (std::map<uint64_t, uint64_t>{{4, 23}, {8, 23}}));
  for (const auto& worker : workers_) {
    uint64_t next = 0;
    for (const auto& entry : worker->sink.entries()) {
      EXPECT_EQ(entry.job, 3);
      EXPECT_EQ(entry.generation, 1);
      if (!entry.report.has_step()) continue;
      EXPECT_EQ(entry.report.step().step(), next++);
    }
    EXPECT_EQ(next, 8);
  }
}

TEST_F(TrainerTest, Learns) {
  WorkerJob job;
  job.train_samples = 400;
  job.epochs = 6;
  const Outcome outcome = Train(job, 2);
  double first = 0;
  double last = 0;
  for (uint32_t share = 0; share < 8; ++share) {
    first += outcome.losses.at({0, share}).first;
    last += outcome.losses.at({119, share}).first;
  }
  EXPECT_LT(last, first / 4);
  uint64_t correct = 0;
  for (const auto& [key, score] : outcome.scores) {
    if (key.first == 120) correct += std::get<1>(score);
  }
  EXPECT_GE(correct, 20);  // of 23
}

TEST_F(TrainerTest, LearnsWithShortFactors) {
  WorkerJob job;
  job.train_samples = 400;
  job.epochs = 6;
  const Outcome exact = Train(job, 1);
  job.precision = v1::BF16;
  const Outcome outcome = Train(job, 1);
  EXPECT_NE(outcome.weights, exact.weights);
  double first = 0;
  double last = 0;
  for (uint32_t share = 0; share < 8; ++share) {
    first += outcome.losses.at({0, share}).first;
    last += outcome.losses.at({119, share}).first;
  }
  EXPECT_LT(last, first / 4);
  // One job, one result.
  job.workers = 3;
  EXPECT_TRUE(Train(job, 2) == outcome);
}

TEST_F(TrainerTest, GradientsOfUpperBlocksLeaveBeforeLowerBlocksHaveGoneBack) {
  WorkerJob job;
  Train(job, 1);
  // One worker with one lane: all shares merge to one sum for each segment and step, and the
  // program sends it before it goes back through the block below.
  const auto pushes = server_->pushes();
  ASSERT_EQ(pushes.size(), 8 * 3);
  for (size_t i = 0; i < pushes.size(); ++i) {
    EXPECT_EQ(pushes[i].step, i / 3);
    EXPECT_EQ(pushes[i].segment, 2 - i % 3);
    EXPECT_EQ(pushes[i].span, (ShareSpan{0, 8}));
    EXPECT_EQ(pushes[i].samples, pushes[i].step % 4 == 3 ? 10 : 20);
  }
}

TEST_F(TrainerTest, SharesWithoutSamplesAreSentAsZeros) {
  WorkerJob job;
  job.workers = 4;
  job.train_samples = 62;  // the last batch has 2 samples for 8 shares
  job.epochs = 1;
  Train(job, 1);
  uint64_t empty = 0;
  uint64_t samples = 0;
  for (const auto& push : server_->pushes()) {
    if (push.step != 3 || push.segment != 0) continue;
    empty += push.samples == 0 ? 1 : 0;
    samples += push.samples;
  }
  EXPECT_EQ(samples, 2);
  EXPECT_GE(empty, 2);
}

TEST_F(TrainerTest, AFailedLinkEndsTheRunWithItsReason) {
  WorkerJob job;
  job.workers = 2;
  Prepare(job, 2);
  server_->FailAt(2, absl::UnavailableError("server s1 (127.0.0.1:7071) cannot be reached"));
  for (const absl::Status& status : RunAll()) {
    EXPECT_EQ(status, absl::UnavailableError("server s1 (127.0.0.1:7071) cannot be reached"));
  }
}

TEST_F(TrainerTest, ALinkThatCannotBeMadeFailsTheRun) {
  Prepare(WorkerJob(), 1);
  const ParameterLinkFactory none = [](const v1::Plan&, uint32_t) {
    return absl::InvalidArgumentError("address of server s0: found \"\"");
  };
  EXPECT_EQ(workers_[0]->trainer->Run(none),
            absl::InvalidArgumentError("address of server s0: found \"\""));
}

TEST_F(TrainerTest, AFailedRunFailsTheLinkToItsNeighbours) {
  WorkerJob job;
  job.deep = true;
  job.ranks = job.workers = 2;
  job.lanes = 1;
  Prepare(job, 1);
  const absl::Status reason = absl::InvalidArgumentError("address of server s0: found \"\"");
  EXPECT_EQ(workers_[0]->trainer->Run([&](const v1::Plan&, uint32_t) { return reason; }), reason);
  EXPECT_EQ(workers_[0]->job->pipeline->Close(absl::ZeroDuration()), reason);
  workers_[1]->trainer->Stop();
  EXPECT_TRUE(absl::IsCancelled(workers_[1]->trainer->Run(server_->Factory())));
  EXPECT_EQ(workers_[1]->job->pipeline->Close(absl::ZeroDuration()), absl::OkStatus());
}

TEST_F(TrainerTest, StopEndsLanesThatWaitForWeights) {
  WorkerJob job;
  job.epochs = 1000;
  Prepare(job, 2);
  server_->HoldBack(3);
  std::thread stopper([this] {
    EXPECT_TRUE(server_->AwaitPushOf(2));
    workers_[0]->trainer->Stop();
  });
  const std::vector<absl::Status> statuses = RunAll();
  stopper.join();
  EXPECT_EQ(statuses[0].code(), absl::StatusCode::kCancelled);
}

TEST_F(TrainerTest, StopEndsLanesThatCompute) {
  WorkerJob job;
  job.epochs = 1'000'000;
  Prepare(job, 2);
  std::thread stopper([this] {
    EXPECT_TRUE(server_->AwaitPushOf(20));
    workers_[0]->trainer->Stop();
  });
  const std::vector<absl::Status> statuses = RunAll();
  stopper.join();
  EXPECT_EQ(statuses[0].code(), absl::StatusCode::kCancelled);
}

TEST_F(TrainerTest, StopBeforeRunCounts) {
  Prepare(WorkerJob(), 2);
  workers_[0]->trainer->Stop();
  EXPECT_EQ(RunAll()[0].code(), absl::StatusCode::kCancelled);
}

TEST_F(TrainerTest, GoesOnWhenHeldUpWeightsCome) {
  WorkerJob job;
  const Outcome expected = Train(job, 2);
  Prepare(job, 2);
  server_->HoldBack(3);
  std::thread releaser([this] {
    EXPECT_TRUE(server_->AwaitPushOf(2));
    server_->Release();
  });
  EXPECT_TRUE(RunAll()[0].ok());
  releaser.join();
  EXPECT_TRUE(Collect() == expected);
}

TEST_F(TrainerTest, WeightsThatStayAwayFailTheRunWithTheirName) {
  options_.stall_limit = absl::Milliseconds(100);
  Prepare(WorkerJob(), 2);
  server_->HoldBack(1);
  const absl::Status status = RunAll()[0];
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("training at step 1, Forward b1 mb "), HasSubstr(": waited")));
  EXPECT_THAT(std::string(status.message()), HasSubstr("from server s0 (127.0.0.1:7070)"));
}

TEST_F(TrainerTest, TheLastWeightsAreAwaitedBeforeTheEnd) {
  options_.stall_limit = absl::Milliseconds(100);
  Prepare(WorkerJob(), 1);
  server_->HoldBack(8);
  EXPECT_THAT(std::string(RunAll()[0].message()), HasSubstr("finish at step 8, AwaitWeights b1"));
}

TEST_F(TrainerTest, RefusesRunsThatContradictTheData) {
  Prepare(WorkerJob(), 1);
  v1::Assignment run = testing::MakeAssignment(WorkerJob(), v1::Assignment::RUN);
  testing::RecordingSink sink;
  run.set_steps_per_epoch(5);
  const auto wrong = Trainer::Create(workers_[0]->job.get(), run, options_, &sink, nullptr);
  EXPECT_EQ(wrong.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(wrong.status().message()), HasSubstr("steps_per_epoch: found 5"));
  run = testing::MakeAssignment(WorkerJob(), v1::Assignment::RUN);
  run.set_steps_total(0);
  EXPECT_EQ(Trainer::Create(workers_[0]->job.get(), run, options_, &sink, nullptr).status().code(),
            absl::StatusCode::kInvalidArgument);
  run = testing::MakeAssignment(WorkerJob(), v1::Assignment::RUN);
  run.set_test_samples(22);
  EXPECT_THAT(std::string(Trainer::Create(workers_[0]->job.get(), run, options_, &sink, nullptr)
                              .status()
                              .message()),
              HasSubstr("found 70 and 22, expected 70 and 23"));
}

}  // namespace
}  // namespace sangam
