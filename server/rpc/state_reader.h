#ifndef SANGAM_SERVER_RPC_STATE_READER_H_
#define SANGAM_SERVER_RPC_STATE_READER_H_

#include <grpcpp/client_context.h>

#include <cstdint>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "proto/cluster_service.pb.h"
#include "proto/plan.pb.h"
#include "server/runtime/parameter_shard.h"

namespace sangam {

// Reads pages with their optimizer's state: the coordinator from servers, servers from the
// coordinator. Calls block, each on a connection of its own. Thread-safe.
//
// Errors of all calls: Unavailable  cannot be reached, or Stop was called
//                      DeadlineExceeded  not done in time
//                      others       as the services say, and as `page`
class StateReader {
 public:
  struct Options {
    // Of one call.
    absl::Duration deadline = absl::Minutes(30);
    // How long a peer is asked again that has gone away or had no room, without a page in between.
    absl::Duration patience = absl::Seconds(30);
  };

  StateReader() = default;
  explicit StateReader(const Options& options) : options_(options) {}

  // ParameterService.ReadState of the server at `address`. Where that one breaks off for want of
  // memory, or says when to come again, it goes on; `page` sees each page once.
  absl::Status ReadState(const std::string& address, uint64_t job, uint64_t step,
                         const TakeStatePage& page);

  // ClusterService.ReadCheckpoint of the coordinator at `address`, for `daemon`. Where the
  // coordinator goes away and comes back, or breaks off for want of memory, it goes on; `page` sees
  // each page once.
  absl::Status ReadCheckpoint(const std::string& address, const v1::DaemonIdentity& daemon,
                              const v1::Assignment& assignment, const TakeStatePage& page);

  // Ends the calls that are under way, and those to come.
  void Stop();

 private:
  struct Source {
    std::string address;
    uint64_t job = 0;
    uint64_t seed = 0;  // of the pauses between two tries
  };

  // `call` makes the reader from the context.
  template <typename MakeReader>
  absl::Status Read(const std::string& address, const MakeReader& make_reader,
                    const TakeStatePage& page);

  // Tries again as long as `again` says of the status of `read`, which is given what takes pages.
  template <typename ReadOnce, typename Again>
  absl::Status ReadPatiently(const Source& source, const ReadOnce& read, const Again& again,
                             const TakeStatePage& page);

  // One try.
  absl::Status TryReadState(const std::string& address, uint64_t job, uint64_t step,
                            const TakeStatePage& page);
  // One try.
  absl::Status TryReadCheckpoint(const std::string& address, const v1::DaemonIdentity& daemon,
                                 const v1::Assignment& assignment, const TakeStatePage& page);
  // False: Stop was called.
  bool Pause(absl::Duration duration);

  const Options options_ = {};
  Mutex mutex_;
  CondVar changed_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<grpc::ClientContext*> calls_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sangam

#endif  // SANGAM_SERVER_RPC_STATE_READER_H_
