// Stands in for sangam-server in tests of `sangam run`: the fake coordinator with one scripted job.
// The end of the program's name chooses another course than success:
//   fails     the job ends FAILED with a reason that names worker-0
//   refuses   the specification is refused
//   waits     the job never ends
//   lost      the job loses worker-0 and waits for another one
//   loses     the weights cannot be read

#include <grpcpp/support/status.h>

#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "client/files.h"
#include "tests/client/fake_coordinator.h"
#include "tests/client/weights_job.h"

namespace sangam {
namespace {

// Two steps and an evaluation.
std::vector<v1::JobEvent> Events(v1::JobState end, const std::string& reason) {
  std::vector<v1::JobEvent> events(6);
  for (size_t i = 0; i < events.size(); ++i) {
    events[i].set_revision(i + 1);
    events[i].mutable_time()->set_seconds(1'700'000'000 + static_cast<int64_t>(i));
    events[i].set_steps_total(2);
    events[i].set_steps_per_epoch(2);
  }
  events[0].mutable_state()->set_state(v1::STARTING);
  events[1].mutable_state()->set_state(v1::RUNNING);
  for (const uint64_t step : {0, 1}) {
    v1::StepMetrics& metrics = *events[2 + step].mutable_step();
    metrics.set_step(step);
    metrics.set_loss(0.5);
    metrics.set_samples(10);
    metrics.set_samples_per_second(1234.4);
  }
  events[4].mutable_evaluation()->set_step(2);
  events[4].mutable_evaluation()->set_accuracy(0.75);
  events[5].mutable_state()->set_state(end);
  events[5].mutable_state()->set_reason(reason);
  return events;
}

v1::Job JobTemplate(const std::string& address) {
  v1::Job job = JobWithWeights(0, address);
  job.mutable_progress()->set_steps_done(2);
  job.mutable_progress()->set_samples_per_second(1234.4);
  job.add_evaluation()->set_accuracy(0.75);
  return job;
}

void Script(absl::string_view program, FakeCoordinator* coordinator) {
  coordinator->SetTemplate(JobTemplate(coordinator->address()));
  coordinator->SetPages({PageOfWeights(1)}, grpc::Status::OK);
  if (absl::EndsWith(program, "-fails")) {
    coordinator->AddWatch(Events(v1::FAILED, "worker 'worker-0': no data"),
                          FakeCoordinator::End::kOk);
  } else if (absl::EndsWith(program, "-lost")) {
    std::vector<v1::JobEvent> events = Events(v1::PREEMPTED, "worker worker-0 has lost its device");
    events.push_back(events.back());
    events.back().set_revision(7);
    events.back().mutable_state()->set_state(v1::QUEUED);
    coordinator->AddWatch(events, FakeCoordinator::End::kStayOpen);
  } else if (absl::EndsWith(program, "-waits")) {
    std::vector<v1::JobEvent> events = Events(v1::RUNNING, "");
    events.resize(4);
    coordinator->AddWatch(events, FakeCoordinator::End::kStayOpen);
  } else {
    coordinator->AddWatch(Events(v1::SUCCEEDED, ""), FakeCoordinator::End::kOk);
  }
  if (absl::EndsWith(program, "-refuses")) {
    coordinator->RefuseJobs(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT,
                                         "batch.shares: found 9\noptimizer: missing"));
  }
  if (absl::EndsWith(program, "-loses")) coordinator->SetPages({}, grpc::Status::OK);
}

}  // namespace
}  // namespace sangam

int main(int argc, char** argv) {
  sigset_t ending;
  sigemptyset(&ending);
  sigaddset(&ending, SIGTERM);
  // Before the server's threads start, so that they inherit it.
  sigprocmask(SIG_BLOCK, &ending, nullptr);
  sangam::FakeCoordinator coordinator;
  sangam::Script(argv[0], &coordinator);
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    std::printf("flag %s\n", argv[i]);
    if (!absl::StartsWith(flag, "--ready_file=")) continue;
    const std::string path = flag.substr(flag.find('=') + 1);
    if (!sangam::WriteFileAtomically(path, coordinator.address()).ok()) return 1;
  }
  std::fflush(stdout);
  int signal = 0;
  sigwait(&ending, &signal);
  return 0;
}
