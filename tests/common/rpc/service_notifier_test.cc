#include "common/rpc/service_notifier.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

using ::testing::MatchesRegex;

// What a service manager has: a socket of datagrams.
class ManagerSocket {
 public:
  // `name` as in NOTIFY_SOCKET.
  explicit ManagerSocket(const std::string& name) {
    socket_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, name.data(), name.size());
    if (name[0] == '@') address.sun_path[0] = '\0';
    const size_t size = offsetof(sockaddr_un, sun_path) + name.size() + (name[0] == '@' ? 0 : 1);
    EXPECT_EQ(bind(socket_, reinterpret_cast<sockaddr*>(&address), static_cast<socklen_t>(size)),
              0);
  }
  ~ManagerSocket() { close(socket_); }

  // "" when there is none.
  std::string Next() {
    std::array<char, 1024> text = {};
    const ssize_t size = recv(socket_, text.data(), text.size(), MSG_DONTWAIT);
    return size > 0 ? std::string(text.data(), static_cast<size_t>(size)) : "";
  }

 private:
  int socket_;
};

void ExpectAllMessages(const std::string& name) {
  ManagerSocket manager(name);
  ServiceNotifier notifier({absl::StrCat("NOTIFY_SOCKET=", name)});
  EXPECT_EQ(manager.Next(), "");
  notifier.Ready("serving at x\nREADY=0");
  EXPECT_EQ(manager.Next(), "READY=1\nSTATUS=serving at x READY=0");
  notifier.Reloading();
  EXPECT_THAT(manager.Next(), MatchesRegex("RELOADING=1\nMONOTONIC_USEC=[0-9]+"));
  notifier.Stopping("draining");
  EXPECT_EQ(manager.Next(), "STOPPING=1\nSTATUS=draining");
  EXPECT_EQ(manager.Next(), "");
}

TEST(ServiceNotifierTest, TellsASocketInTheFileSystem) {
  // Not below TempDir(), whose path can be too long for a socket.
  std::string folder = "/tmp/sangam-notify-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string path = absl::StrCat(folder, "/notify");
  ExpectAllMessages(path);
  unlink(path.c_str());
  rmdir(folder.c_str());
}

TEST(ServiceNotifierTest, TellsAnAbstractSocket) {
  ExpectAllMessages(absl::StrCat("@sangam-notifier-test-", getpid()));
}

TEST(ServiceNotifierTest, WithoutAManagerNothingHappens) {
  for (const std::string socket : {"", "NOTIFY_SOCKET=", "NOTIFY_SOCKET=relative",
                                   "NOTIFY_SOCKET=/nonexistent/socket", "NOTIFY_SOCKET=@"}) {
    ServiceNotifier notifier({socket});
    notifier.Ready("x");
    notifier.Alive();
    notifier.Stopping("x");
    EXPECT_EQ(notifier.watchdog_period(), absl::InfiniteDuration());
  }
  // Longer than an address can be.
  ServiceNotifier notifier({absl::StrCat("NOTIFY_SOCKET=/", std::string(200, 'x'))});
  notifier.Ready("x");
}

TEST(ServiceNotifierTest, SignsOfLifeComeAtHalfOfTheTime) {
  const std::string name = absl::StrCat("@sangam-notifier-test-", getpid());
  ManagerSocket manager(name);
  const std::string socket = absl::StrCat("NOTIFY_SOCKET=", name);
  const std::string own_pid = absl::StrCat("WATCHDOG_PID=", getpid());
  {
    ServiceNotifier notifier({socket, "WATCHDOG_USEC=30000000", own_pid});
    EXPECT_EQ(notifier.watchdog_period(), absl::Seconds(15));
    notifier.Alive();
    EXPECT_EQ(manager.Next(), "WATCHDOG=1");
    // Not with every turn of the loop.
    notifier.Alive();
    EXPECT_EQ(manager.Next(), "");
  }
  {
    ServiceNotifier notifier({socket, "WATCHDOG_USEC=2"});
    notifier.Alive();
    EXPECT_EQ(manager.Next(), "WATCHDOG=1");
    notifier.Alive();
    EXPECT_EQ(manager.Next(), "WATCHDOG=1");
  }
  // For another process, or nonsense.
  for (const auto& environment :
       {std::vector<std::string>{socket, "WATCHDOG_USEC=30000000", "WATCHDOG_PID=1"},
        {socket, "WATCHDOG_USEC=x"},
        {socket, "WATCHDOG_USEC=0"}}) {
    ServiceNotifier notifier(environment);
    EXPECT_EQ(notifier.watchdog_period(), absl::InfiniteDuration());
    notifier.Alive();
    EXPECT_EQ(manager.Next(), "");
  }
}

}  // namespace
}  // namespace sangam
