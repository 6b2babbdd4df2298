#ifndef SANGAM_TESTS_WORKER_RUNTIME_TRAINING_TEST_H_
#define SANGAM_TESTS_WORKER_RUNTIME_TRAINING_TEST_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "common/data/data_root.h"
#include "gtest/gtest.h"
#include "proto/cluster_service.pb.h"
#include "proto/plan.pb.h"
#include "tests/testing/fake_parameter_link.h"
#include "tests/testing/fake_pipeline_network.h"
#include "tests/testing/recording_sink.h"
#include "tests/testing/subprocess.h"
#include "tests/testing/worker_job.h"
#include "worker/runtime/prepared_job.h"
#include "worker/runtime/trainer.h"

namespace sangam::testing {

// Everything that a job gives, bit for bit.
struct Outcome {
  std::vector<std::vector<float>> weights;
  std::map<std::pair<uint64_t, uint32_t>, std::pair<double, uint64_t>> losses;  // by step, share
  // By step, chunk: samples, correct, loss.
  std::map<std::pair<uint64_t, uint32_t>, std::tuple<uint64_t, uint64_t, double>> scores;

  bool operator==(const Outcome& other) const {
    return weights == other.weights && losses == other.losses && scores == other.scores;
  }
};

// One worker of a job.
struct Worker {
  std::unique_ptr<PreparedJob> job;
  RecordingSink sink;
  std::unique_ptr<Trainer> trainer;
};

// Runs whole jobs in one process: a trainer for each worker, a server and a network without a
// network.
class TrainingTest : public ::testing::Test {
 protected:
  TrainingTest()
      : folder_(FreshFolder(absl::StrCat("training_", Name()))),
        root_(DataRoot::Create(folder_).value()) {
    options_.stall_limit = absl::Seconds(20);
  }

  // Prepares every worker that computes.
  void Prepare(const WorkerJob& job, uint32_t threads) {
    WriteData(job, folder_);
    const v1::Assignment assignment = MakeAssignment(job, v1::Assignment::RUN);
    server_ = std::make_unique<FakeParameterServer>(assignment.spec(), assignment.plan());
    workers_.clear();
    for (uint32_t w = 0; w < job.workers; ++w) {
      PrepareOptions prepare;
      prepare.data_root = &root_;
      prepare.threads = threads;
      prepare.backend = backend_;
      prepare.graphs = graphs_;
      prepare.make_pipeline_link = network_.Factory();
      auto prepared = PrepareJob(assignment, w, prepare);
      ASSERT_TRUE(prepared.ok()) << prepared.status();
      if ((*prepared)->lanes.empty()) continue;
      auto worker = std::make_unique<Worker>();
      worker->job = *std::move(prepared);
      auto trainer =
          Trainer::Create(worker->job.get(), assignment, options_, &worker->sink, nullptr);
      ASSERT_TRUE(trainer.ok()) << trainer.status();
      worker->trainer = *std::move(trainer);
      workers_.push_back(std::move(worker));
    }
  }

  // Runs all workers at once; their statuses.
  std::vector<absl::Status> RunAll() { return Run(/*stop_others=*/false); }
  // As the coordinator, stops the others when one has failed.
  std::vector<absl::Status> RunUntilOneFails() { return Run(/*stop_others=*/true); }

  Outcome Collect() {
    Outcome outcome;
    outcome.weights = server_->weights();
    for (const auto& worker : workers_) {
      for (const auto& entry : worker->sink.entries()) Collect(entry.report, &outcome);
    }
    return outcome;
  }

  Outcome Train(const WorkerJob& job, uint32_t threads) {
    Prepare(job, threads);
    for (const absl::Status& status : RunAll()) EXPECT_TRUE(status.ok()) << status;
    return Collect();
  }

  std::string backend_ = "cpu";
  bool graphs_ = true;
  const std::string folder_;
  const DataRoot root_;
  Trainer::Options options_;
  std::unique_ptr<FakeParameterServer> server_;
  FakePipelineNetwork network_;
  std::vector<std::unique_ptr<Worker>> workers_;

 private:
  // Of the test, as a folder may be called.
  static std::string Name() {
    const auto* const info = ::testing::UnitTest::GetInstance()->current_test_info();
    return absl::StrReplaceAll(absl::StrCat(info->test_suite_name(), "_", info->name()),
                               {{"/", "_"}});
  }

  std::vector<absl::Status> Run(bool stop_others) {
    std::vector<absl::Status> statuses(workers_.size());
    std::vector<std::thread> threads;
    for (size_t w = 0; w < workers_.size(); ++w) {
      threads.emplace_back([&, w] {
        statuses[w] = workers_[w]->trainer->Run(server_->Factory());
        if (statuses[w].ok() || !stop_others) return;
        for (const auto& other : workers_) other->trainer->Stop();
      });
    }
    for (std::thread& thread : threads) thread.join();
    return statuses;
  }

  static void Collect(const v1::JobReport& report, Outcome* outcome) {
    for (int i = 0; i < report.step().loss_sum_size(); ++i) {
      const auto key = std::make_pair(report.step().step(),
                                      report.step().first_share() + static_cast<uint32_t>(i));
      EXPECT_EQ(outcome->losses.count(key), 0) << "a share was reported twice";
      outcome->losses[key] = {report.step().loss_sum(i), report.step().samples(i)};
    }
    for (const v1::EvaluationChunk& chunk : report.evaluation().chunk()) {
      const auto key = std::make_pair(report.evaluation().step(), chunk.chunk());
      EXPECT_EQ(outcome->scores.count(key), 0) << "a chunk was scored twice";
      outcome->scores[key] = {chunk.samples(), chunk.correct(), chunk.loss_sum()};
    }
  }
};

}  // namespace sangam::testing

#endif  // SANGAM_TESTS_WORKER_RUNTIME_TRAINING_TEST_H_
