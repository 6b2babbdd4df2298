#ifndef SANGAM_CLIENT_DOCTOR_NETWORK_CHECKS_H_
#define SANGAM_CLIENT_DOCTOR_NETWORK_CHECKS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/doctor/finding.h"
#include "proto/job_service.pb.h"

// What `sangam doctor` sees of the coordinator.
namespace sangam {

// The name stands for an address.
Finding CheckName(const std::string& host);

// What answers at an address, by the first bytes that it sends.
enum class Answerer {
  kNobody,      // no connection
  kSilent,      // a connection, and nothing more
  kPlainHttp2,  // gRPC without TLS
  kTls,
  kOther,
};

struct Probe {
  Answerer answerer = Answerer::kNobody;
  std::string reason;  // of kNobody, as the system says
};

// Connects and says the beginning of HTTP/2, and to who is silent that of TLS; takes at most four
// times `timeout`.
Probe ProbePort(const std::string& host, uint16_t port, absl::Duration timeout);

// Whether a coordinator answers there in the manner that this client is set up for.
Finding CheckPort(const std::string& address, const Probe& probe, bool with_tls);

// Version, protocol and clock of the coordinator, and the daemons that it knows. `asked`,
// `answered`: when, by this machine's clock.
Findings CheckCluster(const v1::Cluster& cluster, absl::Time asked, absl::Time answered);

}  // namespace sangam

#endif  // SANGAM_CLIENT_DOCTOR_NETWORK_CHECKS_H_
