#include "client/commands/doctor.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/cluster_size.h"
#include "client/commands/command.h"
#include "client/commands/connection.h"
#include "client/commands/job_source.h"
#include "client/doctor/finding.h"
#include "client/doctor/machine_checks.h"
#include "client/doctor/network_checks.h"
#include "client/doctor/tls_checks.h"
#include "client/human_format.h"
#include "client/job_client.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/flags/flags.h"
#include "common/flags/wrap.h"
#include "common/rpc/host_port.h"
#include "nlohmann/json.hpp"
#include "proto/job_service.pb.h"

namespace sangam {
namespace {

constexpr absl::Duration kProbeTime = absl::Seconds(3);
constexpr size_t kColumns = 100;

std::string WordOf(Verdict verdict) {
  switch (verdict) {
    case Verdict::kGood:
      return "ok";
    case Verdict::kWarning:
      return "warning";
    case Verdict::kFault:
      return "FAULT";
    case Verdict::kSkipped:
      break;
  }
  return "skipped";
}

std::string Indented(const std::string& text, size_t indent) {
  std::string result;
  for (const std::string& line : WrapWords(text, kColumns - indent)) {
    absl::StrAppend(&result, result.empty() ? "" : std::string(indent, ' '), line, "\n");
  }
  return result;
}

std::string Format(const Findings& findings) {
  constexpr size_t kIndent = 9;
  std::string text;
  for (const Finding& finding : findings) {
    std::string word = WordOf(finding.verdict);
    word.resize(kIndent, ' ');
    absl::StrAppend(&text, word,
                    Indented(absl::StrCat(finding.subject, ": ", finding.found), kIndent));
    if (!finding.fix.empty()) {
      absl::StrAppend(&text, std::string(kIndent, ' '), "-> ", Indented(finding.fix, kIndent + 3));
    }
  }
  return text;
}

// Names of the variables that name a proxy.
std::vector<std::string> ProxiesIn(const std::vector<std::string>& variables) {
  std::vector<std::string> names;
  for (const std::string& variable : variables) {
    const size_t equals = variable.find('=');
    if (equals == std::string::npos || equals + 1 == variable.size()) continue;
    const std::string name = variable.substr(0, equals);
    for (const char* const proxy :
         {"http_proxy", "https_proxy", "grpc_proxy", "HTTP_PROXY", "HTTPS_PROXY"}) {
      if (name == proxy) names.push_back(name);
    }
  }
  return names;
}

class DoctorCommand : public Command {
 public:
  CommandText text() const override {
    return {"doctor",
            "[FILE]",
            "Find what keeps a cluster from working, and the fix.",
            "Looks at this machine (descriptors, memory, clock, proxies, folders, GPU), at the\n"
            "credentials, and at the coordinator: its name, whether it answers and in which\n"
            "manner, its version, clock and daemons. With a job FILE, memory and disk are\n"
            "compared with what that job needs. Nothing is changed. The exit code is 1 when\n"
            "there is a fault.\n",
            {"sangam doctor --coordinator=sangam-coordinator:7070",
             "sangam doctor job.textproto --local --state_dir=/var/lib/sangam",
             "sangam doctor --local --backend=cuda --device=1"}};
  }

  void AddFlags(const Environment& environment, FlagSet* flags) override {
    connection_.AddFlags(environment, flags);
    connection_.AddOutputFlag(flags);
    source_.AddFlags(flags);
    flags->AddSwitch({"local", "", "Look at this machine and the credentials only."}, &local_);
    flags->AddString({"state_dir", "DIR", "The folder of a coordinator's state."}, &state_dir_);
    flags->AddString({"data_root", "DIR", "The folder of data sets."}, &data_root_);
    flags->AddChoice({"backend", "", "What is to compute here."}, {"cpu", "cuda"}, &backend_);
    flags->AddCount({"device", "N", "The GPU, as nvidia-smi counts them."}, &device_, 0, 1023);
  }

  absl::StatusOr<ExitCode> Run(const std::vector<std::string>& arguments,
                               const Environment& environment) override {
    uint64_t memory = 0;
    uint64_t disk = 0;
    if (!arguments.empty()) {
      ASSIGN_OR_RETURN(const v1::JobSpec spec, source_.Read(arguments[0]));
      ASSIGN_OR_RETURN(const ClusterSize size, SizeOf(spec, 1));
      memory = std::max(size.servers.memory(), size.workers.memory());
      disk = size.disk;
    }
    Findings findings = {CheckDescriptors(), CheckMemory(memory), CheckClockSource(),
                         CheckProxy(ProxiesIn(environment.variables)),
                         CheckGpu(backend_ == "cuda", static_cast<uint32_t>(device_))};
    if (!state_dir_.empty()) findings.push_back(CheckStateDir(state_dir_, disk));
    if (!data_root_.empty()) findings.push_back(CheckDataRoot(data_root_));
    Append(CheckCredentials(connection_.security(), environment.clock->Wall()), &findings);
    if (!local_) {
      ASSIGN_OR_RETURN(Findings more, LookAtCoordinator(environment));
      Append(std::move(more), &findings);
    }
    Show(findings, environment);
    const bool faulty = std::any_of(findings.begin(), findings.end(), [](const Finding& finding) {
      return finding.verdict == Verdict::kFault;
    });
    return faulty ? ExitCode::kFailure : ExitCode::kSuccess;
  }

 private:
  static void Append(Findings more, Findings* findings) {
    findings->insert(findings->end(), more.begin(), more.end());
  }

  // Stops at the first thing that keeps the next from being looked at.
  absl::StatusOr<Findings> LookAtCoordinator(const Environment& environment) {
    const absl::StatusOr<HostPort> target = ParseTarget(connection_.coordinator());
    if (!target.ok()) return UsageError(target.status());
    Findings findings = {CheckName(target->host)};
    if (findings.back().verdict == Verdict::kFault) return findings;
    findings.push_back(CheckPort(connection_.coordinator(),
                                 ProbePort(target->host, target->port, kProbeTime),
                                 !connection_.security().tls.empty()));
    if (findings.back().verdict == Verdict::kFault) return findings;
    // The credentials would not even load.
    absl::StatusOr<std::unique_ptr<JobClient>> client = connection_.Connect(environment);
    const absl::Time asked = environment.clock->Wall();
    absl::StatusOr<v1::Cluster> cluster =
        client.ok() ? (*client)->GetCluster() : absl::StatusOr<v1::Cluster>(client.status());
    RETURN_IF_ERROR(environment.CheckInterrupt());
    if (!cluster.ok()) {
      findings.push_back({"call", Verdict::kFault, OneLine(cluster.status().ToString()),
                          "the coordinator's log says more; with TLS both sides must trust the "
                          "same authority, and the role must be allowed to call"});
      return findings;
    }
    Append(CheckCluster(*cluster, asked, environment.clock->Wall()), &findings);
    return findings;
  }

  void Show(const Findings& findings, const Environment& environment) const {
    if (!connection_.json()) {
      environment.console->Out(Format(findings));
      return;
    }
    nlohmann::ordered_json json = nlohmann::ordered_json::array();
    for (const Finding& finding : findings) {
      json.push_back({{"subject", finding.subject},
                      {"verdict", WordOf(finding.verdict)},
                      {"found", finding.found},
                      {"fix", finding.fix}});
    }
    environment.console->Out(absl::StrCat(
        json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace), "\n"));
  }

  Connection connection_;
  JobSource source_;
  bool local_ = false;
  std::string state_dir_;
  std::string data_root_;
  std::string backend_ = "cpu";
  uint64_t device_ = 0;
};

}  // namespace

std::unique_ptr<Command> MakeDoctorCommand() { return std::make_unique<DoctorCommand>(); }

}  // namespace sangam
