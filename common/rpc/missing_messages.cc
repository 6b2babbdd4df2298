#include "common/rpc/missing_messages.h"

#include <grpc/grpc.h>
#include <grpc/support/alloc.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace sangam {
namespace {

// gRPC's answer, or nothing.
std::string Take(char* json) {
  if (json == nullptr) return "";
  const std::unique_ptr<char, decltype(&gpr_free)> owner(json, &gpr_free);
  return json;
}

// The text behind `"key":"` from `*from` on, up to the next quote; moves `*from` behind it. Numbers
// of 64 bits are text in JSON, and gRPC's names of peers have no quotes. Nothing: not found.
absl::string_view NextText(const std::string& json, absl::string_view key, size_t* from) {
  const std::string opening = absl::StrCat("\"", key, "\":\"");
  const size_t found = json.find(opening, *from);
  if (found == std::string::npos) return {};
  const size_t begin = found + opening.size();
  const size_t end = json.find('"', begin);
  if (end == std::string::npos) return {};
  *from = end;
  return absl::string_view(json).substr(begin, end - begin);
}

uint64_t Number(const std::string& json, absl::string_view key) {
  size_t from = 0;
  uint64_t number = 0;
  // One that is 0 is not there.
  return absl::SimpleAtoi(NextText(json, key, &from), &number) ? number : 0;
}

std::vector<int64_t> Ids(const std::string& json, absl::string_view key) {
  std::vector<int64_t> ids;
  int64_t id = 0;
  for (size_t from = 0; absl::SimpleAtoi(NextText(json, key, &from), &id);) ids.push_back(id);
  return ids;
}

bool IsLastPage(const std::string& json) { return json.find("\"end\":true") != std::string::npos; }

// All pages of a list that gRPC gives from an id on.
template <typename Get>
std::vector<int64_t> AllIds(absl::string_view key, const Get& get) {
  std::vector<int64_t> all;
  for (int64_t first = 0;;) {
    const std::string page = Take(get(first));
    const std::vector<int64_t> ids = Ids(page, key);
    all.insert(all.end(), ids.begin(), ids.end());
    if (ids.empty() || IsLastPage(page)) return all;
    first = ids.back() + 1;
  }
}

}  // namespace

std::vector<ConnectionCounts> ReadConnectionCounts() {
  std::vector<ConnectionCounts> connections;
  for (const int64_t server :
       AllIds("serverId", [](int64_t first) { return grpc_channelz_get_servers(first); })) {
    const std::vector<int64_t> sockets = AllIds("socketId", [server](int64_t first) {
      return grpc_channelz_get_server_sockets(server, first, 0);
    });
    for (const int64_t socket : sockets) {
      const std::string json = Take(grpc_channelz_get_socket(socket));
      size_t from = 0;
      absl::string_view name = NextText(json, "name", &from);
      const size_t space = name.find(' ');  // "chttp2 ipv4:1.2.3.4:5678"
      if (space == absl::string_view::npos) continue;
      ConnectionCounts counts;
      counts.peer = std::string(name.substr(space + 1));
      counts.calls_started = Number(json, "streamsStarted");
      counts.calls_ended = Number(json, "streamsSucceeded") + Number(json, "streamsFailed");
      counts.messages_received = Number(json, "messagesReceived");
      connections.push_back(std::move(counts));
    }
  }
  return connections;
}

std::vector<std::string> MissingMessages::Look(const std::vector<ConnectionCounts>& connections,
                                               absl::Duration now) {
  std::vector<std::string> late;
  std::map<std::string, Watched> still;
  for (const ConnectionCounts& counts : connections) {
    Watched watched;
    const auto known = watched_.find(counts.peer);
    const bool is_new = known == watched_.end();
    if (!is_new) watched = known->second;
    const int64_t unmatched =
        static_cast<int64_t>(counts.calls_started) - static_cast<int64_t>(counts.messages_received);
    const bool open = counts.calls_started > counts.calls_ended;
    if (!open) watched.without_message = unmatched;
    const bool all_served = counts.calls_started <= counts.calls_ended + counts.calls_served;
    const bool owes = open && !all_served && unmatched > watched.without_message;
    const bool moved = counts.calls_ended != watched.calls_ended ||
                       counts.messages_received != watched.messages_received ||
                       counts.bytes_received >= watched.bytes_received + kLeastBytes;
    if (is_new || !owes || moved) {
      watched.calls_ended = counts.calls_ended;
      watched.messages_received = counts.messages_received;
      watched.bytes_received = counts.bytes_received;
      watched.progress_at = now;
    }
    if (now - watched.progress_at >= timeout_) late.push_back(counts.peer);
    still[counts.peer] = watched;
  }
  watched_ = std::move(still);
  return late;
}

}  // namespace sangam
