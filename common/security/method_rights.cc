#include "common/security/method_rights.h"

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/security/identity.h"

namespace sangam {
namespace {

struct MethodRight {
  absl::string_view method;
  RoleSet roles;
};

constexpr RoleSet kAll(Role::kClient, Role::kViewer, Role::kWorker, Role::kServer,
                       Role::kCoordinator, Role::kAdmin);
constexpr RoleSet kPeople(Role::kClient, Role::kViewer, Role::kAdmin);
constexpr RoleSet kOwners(Role::kClient, Role::kAdmin);
constexpr RoleSet kDaemons(Role::kWorker, Role::kServer, Role::kCoordinator);
constexpr RoleSet kServers(Role::kServer, Role::kCoordinator);
constexpr RoleSet kWorkers(Role::kWorker);
constexpr RoleSet kAdmins(Role::kAdmin);

// docs/security.md shows the same table.
constexpr MethodRight kRights[] = {
    {"/sangam.v1.JobService/SubmitJob", kOwners},
    {"/sangam.v1.JobService/GetJob", kPeople},
    {"/sangam.v1.JobService/ListJobs", kPeople},
    {"/sangam.v1.JobService/WatchJob", kPeople},
    {"/sangam.v1.JobService/CancelJob", kOwners},
    {"/sangam.v1.JobService/DeleteJob", kOwners},
    {"/sangam.v1.JobService/GetCluster", kPeople},
    {"/sangam.v1.JobService/PlanJob", kPeople},
    {"/sangam.v1.JobService/GetTrace", kPeople},
    {"/sangam.v1.JobService/StreamLogs", kPeople},
    {"/sangam.v1.JobService/ListCheckpoints", kPeople},
    {"/sangam.v1.JobService/VerifyCheckpoint", kPeople},
    {"/sangam.v1.JobService/GetCheckpoint", kPeople},

    {"/sangam.v1.ClusterService/Register", kDaemons},
    {"/sangam.v1.ClusterService/Heartbeat", kDaemons},
    {"/sangam.v1.ClusterService/Report", kDaemons},
    {"/sangam.v1.ClusterService/Leave", kDaemons},
    {"/sangam.v1.ClusterService/ReadCheckpoint", kServers},

    {"/sangam.v1.ParameterService/PushPull", kWorkers},
    {"/sangam.v1.ParameterService/ReadWeights", kPeople},
    {"/sangam.v1.ParameterService/ReadState", RoleSet(Role::kCoordinator)},
    {"/sangam.v1.ParameterService/Vote", kServers},

    {"/sangam.v1.DataService/Feed", kWorkers},
    {"/sangam.v1.PipelineService/Flow", kWorkers},

    {"/sangam.v1.AdminService/DrainDaemon", kAdmins},

    {"/grpc.health.v1.Health/Check", kAll},
    {"/grpc.health.v1.Health/Watch", kAll},

    // They show the whole process.
    {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", kAdmins},
    {"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", kAdmins},
    {"/grpc.channelz.v1.Channelz/GetTopChannels", kAdmins},
    {"/grpc.channelz.v1.Channelz/GetServers", kAdmins},
    {"/grpc.channelz.v1.Channelz/GetServer", kAdmins},
    {"/grpc.channelz.v1.Channelz/GetServerSockets", kAdmins},
    {"/grpc.channelz.v1.Channelz/GetChannel", kAdmins},
    {"/grpc.channelz.v1.Channelz/GetSubchannel", kAdmins},
    {"/grpc.channelz.v1.Channelz/GetSocket", kAdmins},
};

constexpr int kShownBytes = 200;

}  // namespace

RoleSet RolesFor(absl::string_view method) {
  for (const MethodRight& right : kRights) {
    if (method == right.method) return right.roles;
  }
  return RoleSet();
}

absl::Status CheckMethod(const Identity& caller, absl::string_view method) {
  const RoleSet roles = RolesFor(method);
  if (roles.Has(caller.role)) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat("role ", RoleName(caller.role), " may not call ",
                                                  absl::CHexEscape(method.substr(0, kShownBytes)),
                                                  "; it is for ", roles.ToString()));
}

}  // namespace sangam
