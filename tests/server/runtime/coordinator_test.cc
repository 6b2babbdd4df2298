#include "server/runtime/coordinator.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/errors/error_details.h"
#include "common/model/model_layout.h"
#include "gtest/gtest.h"
#include "proto/admin_service.pb.h"
#include "proto/cluster_service.pb.h"
#include "proto/job.pb.h"
#include "proto/job_service.pb.h"
#include "proto/model.pb.h"
#include "proto/plan.pb.h"
#include "proto/tensor.pb.h"
#include "server/core/checkpoint_layout.h"
#include "server/core/optimizer.h"
#include "server/core/saved_records.h"
#include "server/runtime/checkpoint_manifest.h"
#include "server/runtime/checkpoint_output.h"
#include "server/runtime/checkpoint_store.h"
#include "server/runtime/job_store.h"
#include "server/runtime/ticker.h"
#include "tests/server/core/control_fixtures.h"
#include "tests/testing/fake_clock.h"

namespace sangam {
namespace {

using testing::Daemon;
using testing::Ready;
using testing::Registration;
using testing::SmallJob;

v1::SubmitJobRequest SubmitRequest(const std::string& name, uint32_t workers = 1) {
  v1::SubmitJobRequest request;
  *request.mutable_spec() = SmallJob(name, workers, 1);
  request.set_await_daemons(true);
  return request;
}

v1::HeartbeatRequest HeartbeatOf(const v1::DaemonIdentity& daemon, uint64_t known_revision,
                                 uint64_t max_wait_ms) {
  v1::HeartbeatRequest request;
  *request.mutable_daemon() = daemon;
  request.set_known_revision(known_revision);
  request.set_max_wait_ms(max_wait_ms);
  return request;
}

class CoordinatorTest : public ::testing::Test {
 protected:
  explicit CoordinatorTest(const Coordinator::Options& options = {})
      : coordinator_(options, &clock_) {}

  uint64_t Register(const v1::DaemonIdentity& daemon) {
    const auto response = coordinator_.Register(Registration(daemon));
    EXPECT_TRUE(response.ok()) << response.status();
    return Revision(daemon);
  }
  // The revision of what the daemon holds now.
  uint64_t Revision(const v1::DaemonIdentity& daemon) {
    const auto response = coordinator_.Heartbeat(HeartbeatOf(daemon, 0, 0));
    EXPECT_TRUE(response.ok()) << response.status();
    return response.ok() ? response->revision() : 0;
  }

  // Lets the clock run until `done`, for at most 20 seconds of real time.
  template <typename Future>
  bool AdvanceUntilReady(const Future& done) {
    for (int i = 0; i < 2000; ++i) {
      clock_.Advance(absl::Milliseconds(100));
      if (done.wait_for(std::chrono::milliseconds(10)) == std::future_status::ready) return true;
    }
    return false;
  }

  // Waits until the clock has been read so often since `reads`; then the last reader is about to
  // sleep and holds the lock until it does.
  bool WaitForReads(int reads, int more) {
    for (int i = 0; i < 20'000 && clock_.steady_reads() < reads + more; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return clock_.steady_reads() >= reads + more;
  }

  FakeClock clock_;
  Coordinator coordinator_;
  const v1::DaemonIdentity worker_ = Daemon(v1::WORKER, "w-1");
  const v1::DaemonIdentity server_ = Daemon(v1::SERVER, "s-1");
};

// A checkpoint of job 3; its numbers are no matter.
void WriteCheckpoint(const CheckpointStore& store, const v1::JobSpec& spec, uint64_t step) {
  const v1::ModelLayout layout = *BuildModelLayout(spec.model(), spec.loss());
  CheckpointManifest manifest;
  manifest.job = 3;
  manifest.step = step;
  manifest.time = absl::UnixEpoch();
  manifest.layout_hash = LayoutHash(layout);
  manifest.state_names = {"momentum_buffer"};
  manifest.spec = spec;
  const auto output =
      store.BeginOutput(manifest, *CheckpointLayout::Create(layout, manifest.state_names));
  ASSERT_TRUE(output.ok()) << output.status();
  for (int s = 0; s < layout.segment_size(); ++s) {
    v1::FrameHeader header;
    header.set_job(3);
    header.set_step(step);
    header.set_segment(static_cast<uint32_t>(s));
    header.set_element_count(layout.segment(s).element_count());
    header.set_encoding(v1::ENCODING_FP32);
    header.set_kind(v1::FRAME_KIND_STATE);
    ASSERT_TRUE((*output)->Add(header, std::string(8 * header.element_count(), 'x')).ok());
  }
  ASSERT_TRUE((*output)->Commit().ok());
}

TEST_F(CoordinatorTest, ARepeatedSubmissionResumesFromTheSameCheckpoint) {
  Register(worker_);
  Register(server_);
  const std::string folder = ::testing::TempDir() + "/repeated";
  std::filesystem::remove_all(folder);
  const CheckpointStore store(folder);
  coordinator_.SetCheckpoints(&store, [] {});
  v1::SubmitJobRequest request;
  *request.mutable_spec() = SmallJob("job", 1, 1);
  WriteCheckpoint(store, request.spec(), 2);
  request.mutable_spec()->set_resume_from("3");
  request.set_request_id("once");
  const auto first = coordinator_.Submit(request);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->spec().resume_from(), "3/2");
  // Meanwhile there is a newer one, then none at all.
  WriteCheckpoint(store, request.spec(), 4);
  auto again = coordinator_.Submit(request);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->id(), first->id());
  ASSERT_TRUE(store.RemoveJob(3).ok());
  again = coordinator_.Submit(request);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->id(), first->id());
  request.mutable_spec()->set_resume_from("3/4");
  EXPECT_EQ(coordinator_.Submit(request).status().code(), absl::StatusCode::kAlreadyExists);
}

// Records in memory, as long as there is room.
class FakeStore : public RecordStore {
 public:
  absl::StatusOr<SavedRecords> Load() override { return records_; }
  absl::Status Write(const RecordChanges& changes) override {
    if (full) return absl::ResourceExhaustedError("no room");
    for (const auto& [key, value] : changes) {
      if (value.has_value()) {
        records_[key] = *value;
      } else {
        records_.erase(key);
      }
    }
    return absl::OkStatus();
  }

  std::atomic<bool> full{false};

 private:
  SavedRecords records_;
};

class StoredCoordinatorTest : public CoordinatorTest {
 protected:
  StoredCoordinatorTest() : CoordinatorTest(Options()) {
    EXPECT_TRUE(coordinator_.Restore(&store_).ok());
  }
  static Coordinator::Options Options() {
    Coordinator::Options options;
    options.keep_records = true;
    return options;
  }

  FakeStore store_;
};

TEST_F(StoredCoordinatorTest, AnotherOneGoesOnWhereItEnded) {
  Register(worker_);
  const uint64_t revision = Register(server_);
  v1::SubmitJobRequest request = SubmitRequest("job");
  request.set_request_id("r");
  ASSERT_TRUE(coordinator_.Submit(request).ok());
  // As after kill -9: nobody has said goodbye.
  Coordinator next(Options(), &clock_);
  ASSERT_TRUE(next.Restore(&store_).ok());
  const auto job = next.Get("job");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->state(), v1::STARTING);
  // The daemons need not register, and learn what they hold whatever revision they know.
  const auto answer = next.Heartbeat(HeartbeatOf(worker_, revision + 1, 0));
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_FALSE(answer->unchanged());
  ASSERT_EQ(answer->assignment_size(), 1);
  EXPECT_EQ(answer->assignment(0).plan().job(), 1u);
  const auto again = next.Submit(request);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->id(), 1u);
  const auto events = next.WaitForEvents(1, 0, 100, absl::ZeroDuration());
  ASSERT_TRUE(events.ok()) << events.status();
  EXPECT_GE(events->events.size(), 2u);
}

std::string FreshFolder(const std::string& name) {
  std::string folder = ::testing::TempDir() + "coordinator_test_" + name;
  std::filesystem::remove_all(folder);
  return folder;
}

// A complete checkpoint of a job, all zeros.
absl::Status WriteCheckpoint(const CheckpointStore& store, uint64_t job, uint64_t step,
                             const v1::JobSpec& spec) {
  const v1::ModelLayout layout = testing::LayoutOf(spec);
  CheckpointManifest manifest;
  manifest.job = job;
  manifest.step = step;
  manifest.layout_hash = LayoutHash(layout);
  const Optimizer optimizer = *Optimizer::Create(spec.optimizer());
  for (int i = 0; i < optimizer.state_count(); ++i) {
    manifest.state_names.emplace_back(optimizer.state_name(i));
  }
  manifest.spec = spec;
  const uint64_t arrays = 1 + manifest.state_names.size();
  auto files = CheckpointLayout::Create(layout, manifest.state_names);
  if (!files.ok()) return files.status();
  auto output = store.BeginOutput(std::move(manifest), *std::move(files));
  if (!output.ok()) return output.status();
  for (int s = 0; s < layout.segment_size(); ++s) {
    v1::FrameHeader header;
    header.set_job(job);
    header.set_step(step);
    header.set_segment(static_cast<uint32_t>(s));
    header.set_element_count(layout.segment(s).element_count());
    header.set_encoding(v1::ENCODING_FP32);
    header.set_kind(v1::FRAME_KIND_STATE);
    const std::string payload(layout.segment(s).element_count() * arrays * 4, '\0');
    if (const absl::Status status = (*output)->Add(header, payload); !status.ok()) return status;
  }
  return (*output)->Commit().status();
}

TEST_F(CoordinatorTest, AResumeThatIsAskedAgainIsTheSameJobAlsoWithNewerCheckpoints) {
  const CheckpointStore store(FreshFolder("resume"));
  coordinator_.SetCheckpoints(&store, nullptr);
  v1::SubmitJobRequest request = SubmitRequest("job");
  ASSERT_TRUE(WriteCheckpoint(store, 90, 1, request.spec()).ok());
  request.mutable_spec()->set_resume_from("90");
  request.set_request_id("r");
  const auto first = coordinator_.Submit(request);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->spec().resume_from(), "90/1");
  EXPECT_EQ(coordinator_.StepsToKeep(90), (std::set<uint64_t>{1}));
  ASSERT_TRUE(WriteCheckpoint(store, 90, 2, request.spec()).ok());
  const auto again = coordinator_.Submit(request);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->id(), first->id());
  // Or with none.
  ASSERT_TRUE(store.RemoveJob(90).ok());
  EXPECT_TRUE(coordinator_.Submit(request).ok());
  request.mutable_spec()->set_seed(99);
  EXPECT_EQ(coordinator_.Submit(request).status().code(), absl::StatusCode::kAlreadyExists);
  request.set_validate_only(true);
  EXPECT_EQ(coordinator_.Submit(request).status().code(), absl::StatusCode::kAlreadyExists);
}

TEST_F(CoordinatorTest, ADaemonThatDrainsHearsWhenItMayLeave) {
  const CheckpointStore store(FreshFolder("drain"));
  coordinator_.SetCheckpoints(&store, nullptr, /*lasting=*/false);
  Register(server_);
  Register(worker_);
  // The store is not for users.
  v1::SubmitJobRequest lasting = SubmitRequest("lasting");
  lasting.mutable_spec()->mutable_checkpoint()->set_every_steps(1);
  EXPECT_EQ(coordinator_.Submit(lasting).status().code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(coordinator_.Submit(SubmitRequest("job")).ok());
  ASSERT_EQ(coordinator_.Get("job")->state(), v1::STARTING);
  EXPECT_FALSE(coordinator_.Heartbeat(HeartbeatOf(worker_, 0, 0))->drained());
  v1::HeartbeatRequest draining = HeartbeatOf(worker_, 0, 0);
  draining.set_draining(true);
  // The job only prepares.
  const auto answer = coordinator_.Heartbeat(draining);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_TRUE(answer->drained());
  EXPECT_EQ(answer->assignment_size(), 0);
  EXPECT_EQ(coordinator_.Get("job")->state(), v1::QUEUED);
  // Also when it knows that already, and at once.
  draining.set_known_revision(answer->revision());
  draining.set_max_wait_ms(1000);
  const auto again = coordinator_.Heartbeat(draining);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(again->drained() && again->unchanged());
  v1::DrainDaemonRequest undrain;
  undrain.set_name("nobody");
  EXPECT_EQ(coordinator_.DrainDaemon(undrain).status().code(), absl::StatusCode::kNotFound);
}

// A job that has lost its worker begins where its newest good checkpoint says, and the servers get
// the pages of that one.
TEST_F(CoordinatorTest, AJobStartsAgainFromItsNewestGoodCheckpoint) {
  const std::string folder = FreshFolder("again");
  const CheckpointStore store(folder);
  coordinator_.SetCheckpoints(&store, nullptr);
  Register(server_);
  Register(worker_);
  v1::SubmitJobRequest request = SubmitRequest("job");
  request.mutable_spec()->mutable_checkpoint()->set_every_steps(1);
  ASSERT_TRUE(WriteCheckpoint(store, 90, 3, request.spec()).ok());
  request.mutable_spec()->set_resume_from("90/3");
  const uint64_t job = coordinator_.Submit(request)->id();
  const auto again_from = [&](uint64_t incarnation) -> uint64_t {
    v1::LeaveRequest leave;
    *leave.mutable_daemon() = Daemon(v1::WORKER, "w-1", incarnation);
    coordinator_.Leave(leave);
    EXPECT_EQ(coordinator_.Get("job")->state(), v1::QUEUED);
    Register(Daemon(v1::WORKER, "w-1", incarnation + 1));
    coordinator_.Tick();
    EXPECT_EQ(coordinator_.Get("job")->state(), v1::STARTING);
    const auto held = coordinator_.Heartbeat(HeartbeatOf(server_, 0, 0));
    EXPECT_TRUE(held.ok() && held->assignment_size() == 1);
    const v1::Assignment& assignment = held->assignment(0);
    v1::ReadCheckpointRequest read;
    *read.mutable_daemon() = server_;
    read.set_job(job);
    read.set_generation(assignment.plan().generation());
    uint64_t frames = 0;
    EXPECT_TRUE(coordinator_
                    .ReadCheckpoint(read,
                                    [&](const v1::FrameHeader& header, absl::string_view) {
                                      EXPECT_EQ(header.step(), assignment.first_step());
                                      ++frames;
                                      return absl::OkStatus();
                                    })
                    .ok());
    EXPECT_GT(frames, 0u);
    return assignment.first_step();
  };
  // None of its own yet.
  EXPECT_EQ(again_from(1), 3u);
  ASSERT_TRUE(WriteCheckpoint(store, job, 4, request.spec()).ok());
  EXPECT_EQ(again_from(2), 4u);
  ASSERT_TRUE(WriteCheckpoint(store, job, 5, request.spec()).ok());
  for (const auto& entry :
       std::filesystem::directory_iterator(absl::StrCat(folder, "/", job, "/step-5"))) {
    if (entry.path().extension() == ".json") continue;
    std::filesystem::resize_file(entry.path(), std::filesystem::file_size(entry.path()) / 2);
  }
  EXPECT_EQ(again_from(3), 4u);
  const auto described = coordinator_.Get("job");
  EXPECT_NE(described->reason().find("again from step 4"), std::string::npos);
  EXPECT_EQ(described->generation(), 4u);
}

TEST_F(CoordinatorTest, CheckpointsOfAForgottenJobCanBeDeleted) {
  const CheckpointStore store(FreshFolder("forgotten"));
  coordinator_.SetCheckpoints(&store, nullptr);
  v1::SubmitJobRequest request = SubmitRequest("job");
  ASSERT_TRUE(WriteCheckpoint(store, 90, 1, request.spec()).ok());
  request.mutable_spec()->set_name("next");
  request.mutable_spec()->set_resume_from("90/1");
  ASSERT_TRUE(coordinator_.Submit(request).ok());
  v1::DeleteJobRequest forgotten;
  forgotten.set_job("90");
  EXPECT_EQ(coordinator_.Delete(forgotten).code(), absl::StatusCode::kFailedPrecondition);
  v1::CancelJobRequest cancel;
  cancel.set_job("next");
  ASSERT_TRUE(coordinator_.Cancel(cancel).ok());
  EXPECT_TRUE(coordinator_.Delete(forgotten).ok());
  EXPECT_TRUE(store.List("")->empty());
  EXPECT_EQ(coordinator_.Delete(forgotten).code(), absl::StatusCode::kNotFound);
}

TEST_F(CoordinatorTest, AFullQueueIsToldAlsoWhenItIsOnlyChecked) {
  v1::SubmitJobRequest request = SubmitRequest("job");
  for (int i = 0; i < 256; ++i) ASSERT_TRUE(coordinator_.Submit(request).ok());
  EXPECT_EQ(coordinator_.Submit(request).status().code(), absl::StatusCode::kResourceExhausted);
  request.set_validate_only(true);
  EXPECT_EQ(coordinator_.Submit(request).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(StoredCoordinatorTest, CheckpointsAreKnownThatWereCompleteWhenItEnded) {
  Register(worker_);
  Register(server_);
  const CheckpointStore store(FreshFolder("found"));
  coordinator_.SetCheckpoints(&store, nullptr);
  v1::SubmitJobRequest request = SubmitRequest("job");
  request.mutable_spec()->mutable_checkpoint()->set_every_steps(1);
  request.mutable_spec()->mutable_checkpoint()->set_keep(3);
  const auto job = coordinator_.Submit(request);
  ASSERT_TRUE(job.ok()) << job.status();
  ASSERT_TRUE(WriteCheckpoint(store, job->id(), 1, request.spec()).ok());
  Coordinator next(Options(), &clock_);
  next.SetCheckpoints(&store, nullptr);
  ASSERT_TRUE(next.Restore(&store_).ok());
  ASSERT_EQ(next.Get("job")->checkpoint_size(), 1);
  EXPECT_EQ(next.Get("job")->checkpoint(0).step(), 1u);
}

TEST_F(StoredCoordinatorTest, WhatCannotBeWrittenIsNotAnswered) {
  Register(worker_);
  Register(server_);
  store_.full = true;
  v1::SubmitJobRequest request = SubmitRequest("job");
  request.set_request_id("r");
  const auto refused = coordinator_.Submit(request);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(refused.status().message().find("no room"), absl::string_view::npos);
  // A daemon is not told of it either, but it does not count as lost.
  EXPECT_EQ(coordinator_.Heartbeat(HeartbeatOf(worker_, 0, 0)).status().code(),
            absl::StatusCode::kUnavailable);
  store_.full = false;
  const auto taken = coordinator_.Submit(request);
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_EQ(taken->id(), 1u);
  EXPECT_TRUE(coordinator_.Heartbeat(HeartbeatOf(worker_, 0, 0)).ok());
}

TEST_F(CoordinatorTest, RegistrationTellsTheLeaseAndTheAddress) {
  const auto response = coordinator_.Register(Registration(server_));
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->lease_ms(), 5000u);
  EXPECT_EQ(response->address(), "s-1:7070");
}

TEST_F(CoordinatorTest, SubmitListsEveryFault) {
  v1::SubmitJobRequest request = SubmitRequest("job");
  request.mutable_spec()->mutable_optimizer()->set_learning_rate(-1);
  request.mutable_spec()->mutable_batch()->set_shares(9);
  const auto job = coordinator_.Submit(request);
  EXPECT_EQ(job.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(job.status().message().find("optimizer.learning_rate: "), absl::string_view::npos);
  EXPECT_NE(job.status().message().find("\nbatch.shares: "), absl::string_view::npos)
      << job.status();
  EXPECT_EQ(coordinator_.List({}).job_size(), 0);
}

TEST_F(CoordinatorTest, SubmitResolvesDefaultsAndDerivesTheLayout) {
  v1::SubmitJobRequest request = SubmitRequest("job");
  request.mutable_spec()->mutable_batch()->clear_shares();
  const auto job = coordinator_.Submit(request);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->id(), 1u);
  EXPECT_EQ(job->spec().batch().shares(), 4u);
  EXPECT_EQ(job->layout().parameter_count(), 67u);
  EXPECT_EQ(coordinator_.Get("job")->layout().parameter_count(), 67u);
}

TEST_F(CoordinatorTest, ValidateOnlyQueuesNothing) {
  v1::SubmitJobRequest request = SubmitRequest("job");
  request.set_validate_only(true);
  const auto job = coordinator_.Submit(request);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->id(), 0u);
  EXPECT_EQ(job->layout().parameter_count(), 67u);
  EXPECT_EQ(coordinator_.List({}).job_size(), 0);
  EXPECT_EQ(coordinator_.Get("job").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(CoordinatorTest, SubmissionsAreBounded) {
  v1::SubmitJobRequest request = SubmitRequest("job");
  request.set_request_id(std::string(129, 'r'));
  EXPECT_EQ(coordinator_.Submit(request).status().code(), absl::StatusCode::kInvalidArgument);
  request.set_request_id(std::string(128, 'r'));
  EXPECT_EQ(coordinator_.Submit(request)->id(), 1u);
  EXPECT_EQ(coordinator_.Submit(request)->id(), 1u);
  request.clear_request_id();
  request.mutable_spec()->mutable_data()->mutable_idx()->set_train_images(
      std::string(1024 * 1024, 'x'));
  EXPECT_NE(coordinator_.Submit(request).status().message().find("expected at most 1048576"),
            absl::string_view::npos);
}

TEST_F(CoordinatorTest, WhatASmallSpecificationStandsForIsBounded) {
  v1::SubmitJobRequest request = SubmitRequest("job");
  v1::JobSpec* spec = request.mutable_spec();
  spec->clear_model();
  spec->mutable_loss()->mutable_token_cross_entropy();
  spec->clear_data();
  spec->mutable_data()->mutable_text()->add_train("a.txt");
  spec->mutable_evaluation()->set_off(true);
  v1::ModelSpec* model = spec->mutable_model();
  model->add_input_shape(2);
  v1::EmbeddingSpec* table = model->add_block()->add_layer()->mutable_embedding();
  table->set_vocabulary(256);
  table->set_width(4);
  for (int b = 1; b <= 65; ++b) {
    v1::BlockSpec* block = model->add_block();
    block->set_name(absl::StrCat(std::string(120, 'n'), b));
    for (int l = 0; l < 120; ++l) block->add_layer()->mutable_transformer()->set_heads(1);
  }
  ASSERT_LT(request.ByteSizeLong(), 100'000u);
  const absl::Status refused = coordinator_.Submit(request).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(refused.message().find("bytes once every layer is written out, expected at most"),
            absl::string_view::npos)
      << refused;
  EXPECT_EQ(coordinator_.List({}).job_size(), 0);
}

TEST_F(CoordinatorTest, AHeartbeatIsAnsweredAtOnceWhenThereIsNews) {
  const uint64_t revision = Register(worker_);
  Register(server_);
  ASSERT_TRUE(coordinator_.Submit(SubmitRequest("job")).ok());
  const auto response = coordinator_.Heartbeat(HeartbeatOf(worker_, revision, 1'000'000));
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_FALSE(response->unchanged());
  ASSERT_EQ(response->assignment_size(), 1);
  EXPECT_EQ(response->assignment(0).phase(), v1::Assignment::PREPARE);
  EXPECT_EQ(response->assignment(0).spec().name(), "job");
}

// Sleeps until it is woken.
class SoundSleeperTest : public CoordinatorTest {
 protected:
  static Coordinator::Options Options() {
    Coordinator::Options options;
    options.longest_sleep = absl::Hours(1);
    options.lease = absl::Hours(3);  // a heartbeat may wait for an hour
    return options;
  }
  SoundSleeperTest() : CoordinatorTest(Options()) {}

  // Reads of the clock before a heartbeat, or a wait for events, sleeps.
  static constexpr int kReadsOfHeartbeat = 3;
  static constexpr int kReadsOfWait = 2;
};

TEST_F(SoundSleeperTest, AWaitingHeartbeatWakesWhenAJobStarts) {
  const uint64_t revision = Register(worker_);
  Register(server_);
  const int reads = clock_.steady_reads();
  auto heartbeat = std::async(std::launch::async, [&] {
    return coordinator_.Heartbeat(HeartbeatOf(worker_, revision, UINT64_MAX));
  });
  ASSERT_TRUE(WaitForReads(reads, kReadsOfHeartbeat));
  ASSERT_TRUE(coordinator_.Submit(SubmitRequest("job")).ok());
  ASSERT_EQ(heartbeat.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  EXPECT_EQ(heartbeat.get()->assignment_size(), 1);
}

TEST_F(CoordinatorTest, AHeartbeatWithoutNewsEndsAfterAThirdOfTheLeaseAtMost) {
  const uint64_t revision = Register(worker_);
  const absl::Duration begin = clock_.Steady();
  auto heartbeat = std::async(std::launch::async, [&] {
    return coordinator_.Heartbeat(HeartbeatOf(worker_, revision, UINT64_MAX));
  });
  ASSERT_TRUE(AdvanceUntilReady(heartbeat));
  const auto response = heartbeat.get();
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_TRUE(response->unchanged());
  EXPECT_EQ(response->revision(), revision);
  EXPECT_EQ(response->assignment_size(), 0);
  EXPECT_GE(clock_.Steady() - begin, absl::Seconds(5) / 3);
}

TEST_F(CoordinatorTest, AHeartbeatOfAStrangerIsNotFound) {
  EXPECT_EQ(coordinator_.Heartbeat(HeartbeatOf(worker_, 0, 0)).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(CoordinatorTest, TickEndsLeases) {
  Register(worker_);
  Register(server_);
  ASSERT_TRUE(coordinator_.Submit(SubmitRequest("job")).ok());
  for (int i = 0; i < 51; ++i) {
    clock_.Advance(absl::Milliseconds(100));
    coordinator_.Tick();
  }
  const auto job = coordinator_.Get("job");
  EXPECT_EQ(job->state(), v1::QUEUED);
  // Submitted, started, lost, queued again.
  ASSERT_EQ(job->history_size(), 4);
  EXPECT_EQ(job->history(2).state(), v1::PREEMPTED);
  EXPECT_NE(job->history(2).reason().find("lost: no sign of life"), std::string::npos)
      << job->history(2).reason();
  const v1::Cluster cluster = coordinator_.DescribeCluster();
  ASSERT_EQ(cluster.daemon_size(), 2);
  EXPECT_FALSE(cluster.daemon(0).alive());
  EXPECT_EQ(cluster.daemon(0).silent_ms(), 5100u);
}

TEST_F(SoundSleeperTest, WaitingForEventsWakesWithTheNext) {
  const uint64_t job = coordinator_.Submit(SubmitRequest("job"))->id();
  const auto first = coordinator_.WaitForEvents(job, 0, 10, absl::ZeroDuration());
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_EQ(first->events.size(), 2u);  // queued, and what it waits for
  const int reads = clock_.steady_reads();
  auto next = std::async(std::launch::async,
                         [&] { return coordinator_.WaitForEvents(job, 2, 10, absl::Hours(1)); });
  ASSERT_TRUE(WaitForReads(reads, kReadsOfWait));
  v1::CancelJobRequest cancel;
  cancel.set_job("job");
  ASSERT_TRUE(coordinator_.Cancel(cancel).ok());
  ASSERT_EQ(next.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  const auto events = next.get();
  ASSERT_EQ(events->events.size(), 1u);
  EXPECT_EQ(events->events[0].state().state(), v1::CANCELLED);
  EXPECT_TRUE(events->complete);
  // Nothing comes after the end, and nobody waits for it.
  EXPECT_TRUE(coordinator_.WaitForEvents(job, 3, 10, absl::Hours(1))->complete);
}

TEST_F(CoordinatorTest, WaitingForEventsEndsInTime) {
  const uint64_t job = coordinator_.Submit(SubmitRequest("job"))->id();
  auto next = std::async(std::launch::async,
                         [&] { return coordinator_.WaitForEvents(job, 2, 10, absl::Seconds(1)); });
  ASSERT_TRUE(AdvanceUntilReady(next));
  const auto events = next.get();
  EXPECT_TRUE(events->events.empty());
  EXPECT_FALSE(events->complete);
  EXPECT_EQ(coordinator_.WaitForEvents(9, 0, 10, absl::Hours(1)).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(SoundSleeperTest, ShutdownEndsEveryWait) {
  const uint64_t revision = Register(worker_);
  const uint64_t job = coordinator_.Submit(SubmitRequest("job"))->id();
  const int reads = clock_.steady_reads();
  auto heartbeat = std::async(std::launch::async, [&] {
    return coordinator_.Heartbeat(HeartbeatOf(worker_, revision, UINT64_MAX)).status();
  });
  auto events = std::async(std::launch::async, [&] {
    return coordinator_.WaitForEvents(job, 2, 10, absl::Hours(1)).status();
  });
  ASSERT_TRUE(WaitForReads(reads, kReadsOfHeartbeat + kReadsOfWait));
  coordinator_.Shutdown();
  ASSERT_EQ(heartbeat.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  ASSERT_EQ(events.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  EXPECT_EQ(heartbeat.get().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(events.get().code(), absl::StatusCode::kUnavailable);
}

using ServedList = std::vector<std::shared_ptr<const v1::Assignment>>;

class ServingTest : public CoordinatorTest {
 protected:
  ServingTest() {
    Register(worker_);
    Register(server_);
  }
  static v1::SubmitJobRequest Served(const std::string& name) {
    v1::SubmitJobRequest request = SubmitRequest(name);
    request.mutable_spec()->mutable_data()->set_served(true);
    return request;
  }
  // "1 PREPARE", for each job.
  static std::string TextOf(const ServedList& jobs) {
    std::string text;
    for (const auto& job : jobs) {
      absl::StrAppend(&text, text.empty() ? "" : ", ", job->plan().job(), " ",
                      v1::Assignment::Phase_Name(job->phase()));
    }
    return text;
  }
  void ReportReady(const v1::DaemonIdentity& daemon, uint64_t job) {
    v1::ReportRequest report;
    *report.mutable_daemon() = daemon;
    report.set_job(job);
    report.set_generation(1);
    *report.add_report() = Ready();
    const absl::Status status = coordinator_.Report(report);
    ASSERT_TRUE(status.ok()) << status;
  }
};

TEST_F(ServingTest, AServedJobFailsWhenNobodyServes) {
  ASSERT_TRUE(coordinator_.Submit(Served("job")).ok());
  const auto job = coordinator_.Get("job");
  EXPECT_EQ(job->state(), v1::FAILED);
  EXPECT_NE(job->reason().find("data.served: found true, but this coordinator serves no data"),
            std::string::npos)
      << job->reason();
}

TEST_F(ServingTest, WhoServesIsToldOfEveryChangeInOrder) {
  std::vector<std::string> told;
  coordinator_.SetServing([&told](const ServedList& jobs) { told.push_back(TextOf(jobs)); });
  const uint64_t job = coordinator_.Submit(Served("job"))->id();
  ReportReady(worker_, job);
  ReportReady(server_, job);
  EXPECT_EQ(coordinator_.Get("job")->state(), v1::STARTING);
  coordinator_.OnServedData(job, 1, Ready().ready());
  EXPECT_EQ(coordinator_.Get("job")->state(), v1::RUNNING);
  v1::CancelJobRequest cancel;
  cancel.set_job("job");
  ASSERT_TRUE(coordinator_.Cancel(cancel).ok());
  EXPECT_EQ(told, (std::vector<std::string>{"", "1 PREPARE", "1 RUN", ""}));
  // Jobs whose workers read the data themselves are none of its business.
  ASSERT_TRUE(coordinator_.Submit(SubmitRequest("other")).ok());
  EXPECT_EQ(told.size(), 4u);
}

TEST_F(ServingTest, WhoServesMayAnswerAtOnce) {
  std::vector<std::string> told;
  coordinator_.SetServing([this, &told](const ServedList& jobs) {
    told.push_back(TextOf(jobs));
    for (const auto& job : jobs) {
      if (job->phase() != v1::Assignment::PREPARE) continue;
      ReportReady(worker_, job->plan().job());
      ReportReady(server_, job->plan().job());
      coordinator_.OnServedData(job->plan().job(), job->plan().generation(), Ready().ready());
    }
    told.push_back("done");
  });
  ASSERT_TRUE(coordinator_.Submit(Served("job")).ok());
  EXPECT_EQ(coordinator_.Get("job")->state(), v1::RUNNING);
  EXPECT_EQ(told, (std::vector<std::string>{"", "done", "1 PREPARE", "done", "1 RUN", "done"}));
}

TEST_F(ServingTest, WhoComesLaterIsToldOfWhatIsThere) {
  coordinator_.SetServing([](const ServedList&) {});
  const uint64_t job = coordinator_.Submit(Served("job"))->id();
  std::vector<std::string> told;
  coordinator_.SetServing([&told](const ServedList& jobs) { told.push_back(TextOf(jobs)); });
  EXPECT_EQ(told, (std::vector<std::string>{"1 PREPARE"}));
  coordinator_.OnServedData(job, 1, absl::NotFoundError("train-images: no such file"));
  EXPECT_EQ(coordinator_.Get("job")->reason(),
            "coordinator (data) failed: NOT_FOUND: train-images: no such file");
  EXPECT_EQ(told.back(), "");
}

TEST_F(CoordinatorTest, APlanIsMadeWithoutAJob) {
  v1::PlanJobRequest request;
  EXPECT_EQ(coordinator_.Plan(request).status().code(), absl::StatusCode::kInvalidArgument);
  *request.mutable_spec() = SmallJob("job", 1, 1);
  EXPECT_EQ(coordinator_.Plan(request).status().code(), absl::StatusCode::kFailedPrecondition);
  Register(worker_);
  const auto report = coordinator_.Plan(request);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->feasible());
  EXPECT_EQ(report->forecast_size(), 3);
  EXPECT_EQ(report->cluster().link_bytes_per_second(), 1.25e9);
  EXPECT_EQ(coordinator_.List({}).job_size(), 0);
}

TEST_F(CoordinatorTest, WhatCannotFitIsRefusedAlsoWhenItIsOnlyChecked) {
  v1::RegisterRequest small = Registration(worker_);
  small.set_memory_bytes(100);
  ASSERT_TRUE(coordinator_.Register(small).ok());
  v1::SubmitJobRequest request = SubmitRequest("job");
  for (const bool validate_only : {true, false}) {
    request.set_validate_only(validate_only);
    const absl::Status refused = coordinator_.Submit(request).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_NE(refused.message().find("worker w-1 needs"), absl::string_view::npos) << refused;
  }
  EXPECT_EQ(coordinator_.List({}).job_size(), 0);
}

TEST_F(CoordinatorTest, AJobForWhichDaemonsAreMissingIsRefusedUnlessItAwaitsThem) {
  Register(worker_);
  Register(server_);
  v1::SubmitJobRequest request = SubmitRequest("job", 5);
  request.set_await_daemons(false);
  for (const bool validate_only : {true, false}) {
    request.set_validate_only(validate_only);
    const absl::Status refused = coordinator_.Submit(request).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(refused.message(), "needs 5 workers, cluster has 1 (w-1)");
    EXPECT_EQ(ReasonName(refused), "NOT_ENOUGH_DAEMONS");
  }
  request.set_await_daemons(true);
  EXPECT_TRUE(coordinator_.Submit(request).ok());
}

TEST_F(CoordinatorTest, EveryReasonOfARefusalIsListed) {
  v1::RegisterRequest small = Registration(worker_);
  small.set_memory_bytes(100);
  ASSERT_TRUE(coordinator_.Register(small).ok());
  v1::SubmitJobRequest request = SubmitRequest("job");
  request.set_await_daemons(false);
  const absl::Status refused = coordinator_.Submit(request).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(refused.message().find("needs 1 server, cluster has 0\n"), 0u) << refused;
  EXPECT_NE(refused.message().find("worker w-1 needs"), absl::string_view::npos) << refused;
}

TEST_F(CoordinatorTest, ADeletedJobIsGoneAlsoForThoseWhoWatchIt) {
  const uint64_t job = coordinator_.Submit(SubmitRequest("job"))->id();
  v1::DeleteJobRequest request;
  request.set_job("job");
  EXPECT_EQ(coordinator_.Delete(request).code(), absl::StatusCode::kFailedPrecondition);
  v1::CancelJobRequest cancel;
  cancel.set_job("job");
  ASSERT_TRUE(coordinator_.Cancel(cancel).ok());
  EXPECT_TRUE(coordinator_.Delete(request).ok());
  EXPECT_EQ(coordinator_.WaitForEvents(job, 0, 1, absl::ZeroDuration()).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(CoordinatorTest, TheLogOfAJobHasItsChanges) {
  const uint64_t job = coordinator_.Submit(SubmitRequest("job"))->id();
  Register(server_);
  Register(worker_);
  coordinator_.Tick();
  const auto logs = coordinator_.WaitForLogs(job, 0, "coordinator", 10, absl::ZeroDuration());
  ASSERT_TRUE(logs.ok()) << logs.status();
  ASSERT_EQ(logs->lines.size(), 1u);
  EXPECT_EQ(logs->lines[0].text(),
            "job changed job=1 name=job state=STARTING reason=\"on workers w-1 and servers s-1\"");
  EXPECT_EQ(logs->revision, 1u);
  EXPECT_FALSE(logs->ended);
  v1::CancelJobRequest cancel;
  cancel.set_job("job");
  ASSERT_TRUE(coordinator_.Cancel(cancel).ok());
  EXPECT_TRUE(coordinator_.WaitForLogs(job, 1, "", 10, absl::ZeroDuration())->ended);
  EXPECT_EQ(coordinator_.WaitForLogs(job + 1, 0, "", 10, absl::ZeroDuration()).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(CoordinatorTest, ARepetitionIsAnsweredWhateverHasBecomeOfTheCluster) {
  v1::SubmitJobRequest request = SubmitRequest("job");
  request.set_request_id("once");
  ASSERT_TRUE(coordinator_.Submit(request).ok());
  v1::RegisterRequest small = Registration(worker_);
  small.set_memory_bytes(100);
  ASSERT_TRUE(coordinator_.Register(small).ok());
  const auto again = coordinator_.Submit(request);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->id(), 1u);
  request.set_request_id("twice");
  EXPECT_EQ(coordinator_.Submit(request).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(CoordinatorTest, ATraceIsFoundByNumberOrName) {
  EXPECT_EQ(coordinator_.Trace("job").status().code(), absl::StatusCode::kNotFound);
  Register(worker_);
  Register(server_);
  ASSERT_TRUE(coordinator_.Submit(SubmitRequest("job")).ok());
  v1::ReportRequest report;
  report.set_job(1);
  report.set_generation(1);
  *report.mutable_daemon() = server_;
  *report.add_report() = Ready();
  ASSERT_TRUE(coordinator_.Report(report).ok());
  *report.mutable_daemon() = worker_;
  report.add_report()->mutable_trace()->set_step(2);
  EXPECT_EQ(coordinator_.Trace("job").status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(coordinator_.Report(report).ok());
  for (const char* name : {"job", "1"}) {
    const auto trace = coordinator_.Trace(name);
    ASSERT_TRUE(trace.ok()) << trace.status();
    EXPECT_EQ(trace->worker(0).step(0).step(), 2u);
  }
}

// A daemon as the coordinator sees it: heartbeats, gets ready, trains in no time.
void LiveAsDaemon(const v1::DaemonIdentity& daemon, Coordinator* coordinator,
                  const std::atomic<bool>* stop) {
  ASSERT_TRUE(coordinator->Register(Registration(daemon)).ok());
  uint64_t revision = 0;
  while (!*stop) {
    const auto answer = coordinator->Heartbeat(HeartbeatOf(daemon, revision, 200));
    ASSERT_TRUE(answer.ok()) << answer.status();
    revision = answer->revision();
    for (const v1::Assignment& assignment : answer->assignment()) {
      v1::ReportRequest report;
      *report.mutable_daemon() = daemon;
      report.set_job(assignment.plan().job());
      report.set_generation(assignment.plan().generation());
      if (assignment.phase() == v1::Assignment::PREPARE) *report.add_report() = Ready();
      if (assignment.phase() == v1::Assignment::RUN && daemon.role() == v1::WORKER) {
        for (const v1::WorkerPlan& worker : assignment.plan().worker()) {
          if (worker.name() != daemon.name()) continue;
          for (uint64_t step = 0; step < assignment.steps_total(); ++step) {
            *report.add_report() = testing::Step(worker, step);
          }
          *report.add_report() = testing::Evaluated(worker, assignment.steps_total());
          *report.add_report() = testing::Finished();
        }
      }
      const absl::Status status = coordinator->Report(report);
      ASSERT_TRUE(status.ok() || absl::IsAborted(status)) << status;
    }
  }
}

TEST(CoordinatorThreadsTest, ManyThreadsRunManyJobs) {
  constexpr int kJobs = 20;
  Coordinator::Options options;
  options.lease = absl::Minutes(1);  // a busy machine must not matter
  Coordinator coordinator(options, &Clock::Real());
  const Ticker ticker(absl::Milliseconds(10), [&coordinator] { coordinator.Tick(); });
  std::atomic<bool> stop{false};
  std::vector<std::thread> daemons;
  for (const auto& daemon : {Daemon(v1::WORKER, "w-1"), Daemon(v1::WORKER, "w-2"),
                             Daemon(v1::SERVER, "s-1"), Daemon(v1::SERVER, "s-2")}) {
    daemons.emplace_back(
        [daemon, &coordinator, &stop] { LiveAsDaemon(daemon, &coordinator, &stop); });
  }
  std::vector<std::thread> watchers;
  for (int i = 0; i < kJobs; ++i) {
    const auto job = coordinator.Submit(SubmitRequest(absl::StrCat("job-", i), 2));
    ASSERT_TRUE(job.ok()) << job.status();
    watchers.emplace_back([id = job->id(), &coordinator] {
      uint64_t after = 0;
      for (int rounds = 0; rounds < 1000; ++rounds) {
        const auto events = coordinator.WaitForEvents(id, after, 3, absl::Seconds(1));
        ASSERT_TRUE(events.ok()) << events.status();
        for (const v1::JobEvent& event : events->events) {
          ASSERT_EQ(event.revision(), after + 1);
          after = event.revision();
        }
        if (events->complete) return;
      }
      ADD_FAILURE() << "job " << id << " does not end";
    });
  }
  for (std::thread& watcher : watchers) watcher.join();
  stop = true;
  for (std::thread& daemon : daemons) daemon.join();
  for (int i = 0; i < kJobs; ++i) {
    const auto job = coordinator.Get(absl::StrCat("job-", i));
    EXPECT_EQ(job->state(), v1::SUCCEEDED) << job->reason();
    EXPECT_EQ(job->progress().steps_done(), testing::kStepsTotal);
    // The newest four keep their weights.
    EXPECT_EQ(job->weights_available(), i >= kJobs - 4);
  }
}

}  // namespace
}  // namespace sangam
