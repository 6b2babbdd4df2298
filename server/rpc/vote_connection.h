#ifndef SANGAM_SERVER_RPC_VOTE_CONNECTION_H_
#define SANGAM_SERVER_RPC_VOTE_CONNECTION_H_

#include <grpcpp/alarm.h>
#include <grpcpp/channel.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/backoff.h"
#include "common/base/mutex.h"
#include "common/rpc/activity_count.h"
#include "common/rpc/client_stream.h"
#include "common/rpc/completion_queue_thread.h"
#include "common/rpc/completion_tag.h"
#include "common/rpc/stream_handler.h"
#include "server/runtime/vote_link.h"

namespace sangam {

// A server's way to the one that counts a job's votes: a stream of ParameterService.Vote that is
// opened again when it is lost. Each new stream introduces the server and sends again what may be
// undecided. Thread-safe; shared with its pending operations.
class VoteConnection final : public VoteLink,
                             public StreamHandler,
                             public std::enable_shared_from_this<VoteConnection> {
 public:
  struct Patience {
    // How long there may be no working stream. One works when a decision has come by it, or when it
    // has stayed open for a second.
    absl::Duration connect_deadline = absl::Seconds(30);
    Backoff::Options backoff;
  };

  // `queue` and `activities` must outlive the connection's end. An activity is held from Open until
  // then.
  VoteConnection(VoteLinkOptions options, const Patience& patience,
                 std::weak_ptr<VoteSource> source, grpc::CompletionQueue* queue,
                 ActivityCount* activities);

  void Open();

  // VoteLink.
  void Wake() override;
  void Close() override;

  // StreamHandler.
  void OnOpened() override;
  absl::Status OnMessage(const grpc::ByteBuffer& message) override;
  std::optional<grpc::ByteBuffer> NextMessage() override;
  void OnFinished(const absl::Status& status) override;

 private:
  void StartStream() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What to do after a stream has ended with `status`: OK when an alarm for the next try was set,
  // else what the connection ends with.
  absl::Status TryAgain(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnAlarm(bool ok);
  void End(const absl::Status& status);
  // "server 'name' at host:port, which counts the votes".
  std::string Peer() const;

  const VoteLinkOptions options_;
  const Patience patience_;
  const uint64_t generation_;
  const std::weak_ptr<VoteSource> source_;
  const std::shared_ptr<grpc::Channel> channel_;
  grpc::CompletionQueue* const queue_;
  ActivityCount* const activities_;
  OperationTag<VoteConnection> alarm_tag_{&VoteConnection::OnAlarm};

  Mutex mutex_;
  // None between two tries.
  std::shared_ptr<ClientStream> stream_ ABSL_GUARDED_BY(mutex_);
  grpc::Alarm alarm_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool hello_waits_ ABSL_GUARDED_BY(mutex_) = false;
  // A fault that we found, with which the connection ends.
  std::optional<absl::Status> fault_ ABSL_GUARDED_BY(mutex_);
  // Tries, on the steady clock.
  Backoff backoff_ ABSL_GUARDED_BY(mutex_);
  uint64_t tries_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Duration not_working_since_ ABSL_GUARDED_BY(mutex_) = absl::ZeroDuration();
  std::optional<absl::Duration> opened_at_ ABSL_GUARDED_BY(mutex_);
  bool decision_came_ ABSL_GUARDED_BY(mutex_) = false;
};

// The connections of one server process, on a completion queue of their own. Thread-safe.
class VoteConnections {
 public:
  explicit VoteConnections(const VoteConnection::Patience& patience = {});
  // As Stop.
  ~VoteConnections();
  VoteConnections(const VoteConnections&) = delete;
  VoteConnections& operator=(const VoteConnections&) = delete;

  // See VoteLinkFactory. After Stop a link is never connected.
  std::shared_ptr<VoteLink> Open(VoteLinkOptions options, std::weak_ptr<VoteSource> source);

  // Ends all of them, and waits until nothing is under way.
  void Stop();

 private:
  const VoteConnection::Patience patience_;
  ActivityCount activities_;
  CompletionQueueThread thread_;

  Mutex mutex_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::weak_ptr<VoteConnection>> open_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sangam

#endif  // SANGAM_SERVER_RPC_VOTE_CONNECTION_H_
