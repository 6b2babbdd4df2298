#ifndef SANGAM_TESTS_E2E_CLUSTER_H_
#define SANGAM_TESTS_E2E_CLUSTER_H_

#include <csignal>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"
#include "tests/testing/subprocess.h"

namespace sangam::testing {

// What a test's job looks like; everything else is fixed.
struct TestJob {
  std::string name = "test";
  int hidden = 64;       // width of the hidden layer
  double dropout = 0.2;  // 0: no dropout layer
  int batch = 64;
  int micro_batches = 8;
  int shares = 8;
  int epochs = 2;
  std::string optimizer = "learning_rate: 0.05 momentum { momentum: 0.9 }";
  int workers = 1;
  int servers = 1;
  std::string evaluation = "every_epochs: 1";
  std::string more;  // further fields
};

// The job as a textproto; data files as WriteTestData names them.
std::string JobText(const TestJob& job);

// Writes a small training and test set (images of 28x28 of 10 classes) into `folder`.
void WriteTestData(const std::string& folder, int train_samples, int test_samples);

// Paths of the programs under test.
std::string ServerBinary();
std::string WorkerBinary();
std::string ClientBinary();

// Real daemons on loopback, started one by one. Everything ends with the object.
class Cluster {
 public:
  struct Options {
    std::string folder;     // for logs and ready files; exists
    std::string data_root;  // of every worker; empty: none
    std::string lease = "2s";
    // Flags of a daemon ("coordinator", "server", "worker") or the client ("client") of this name,
    // for who it is. Empty: plaintext.
    std::function<std::vector<std::string>(const std::string& role, const std::string& name)>
        identity = {};
  };
  explicit Cluster(Options options) : options_(std::move(options)) {}

  // Starts the coordinator; with `role` "all" it is a server too.
  void StartCoordinator(const std::string& role, const std::vector<std::string>& flags = {});
  // Ends the coordinator (by default with SIGKILL), and after `away` starts it again at the same
  // address and with the same flags.
  void RestartCoordinator(absl::Duration away, int signal = SIGKILL);
  // Sends SIGTERM to a daemon and waits for its end; another one may take its name afterwards. -1:
  // it did not end in time.
  int Stop(const std::string& name, absl::Duration deadline);
  // More daemons, which know the coordinator.
  void StartServer(const std::string& name, const std::vector<std::string>& flags = {});
  // `command`: what starts the worker, in place of WorkerBinary().
  void StartWorker(const std::string& name, const std::vector<std::string>& flags = {},
                   const std::vector<std::string>& command = {});

  // The daemon of that name ("coordinator" for the first).
  Subprocess& daemon(const std::string& name);
  const std::string& address() const { return address_; }

  // Runs the client against this cluster, as the client "tester" when there are identities and the
  // arguments say nothing of TLS.
  Finished Client(std::vector<std::string> arguments, absl::Duration deadline);
  // Writes the job into a file and submits it; ends the test when it is refused. It waits for
  // daemons that are missing.
  void Submit(const std::string& job_text);
  // The output of `sangam describe NAME --output=json`; a failed test when it ends badly.
  nlohmann::json Describe(const std::string& job);
  // Waits until that output contains `text`.
  absl::StatusOr<std::string> AwaitDescription(const std::string& job, const std::string& text,
                                               absl::Duration deadline);

 private:
  // Appends the flags of who it is.
  void Identify(const std::string& role, const std::string& name,
                std::vector<std::string>* argv) const;
  void Start(const std::string& name, std::vector<std::string> argv, std::string* ready);
  // Waits for its end, and knows it no more; its exit code.
  int Remove(const std::string& name, absl::Duration deadline);

  Options options_;
  std::string address_;
  std::vector<std::string> coordinator_argv_;  // but for the address
  int submitted_ = 0;
  std::vector<std::pair<std::string, std::unique_ptr<Subprocess>>> daemons_;
};

}  // namespace sangam::testing

#endif  // SANGAM_TESTS_E2E_CLUSTER_H_
