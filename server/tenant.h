#ifndef QUIRE_SERVER_TENANT_H_
#define QUIRE_SERVER_TENANT_H_

#include <cstdint>
#include <memory>
#include <string>

#include "server/quota.h"

namespace quire {

// Who a bearer token stands for, and what they may do. Constant but for the quota.
struct Tenant {
  std::string name = "";
  bool is_admin = false;
  int32_t max_priority = 0;  // of a request
  std::shared_ptr<Quota> quota = nullptr;
};

}  // namespace quire

#endif  // QUIRE_SERVER_TENANT_H_
