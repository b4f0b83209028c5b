#include "../views.hpp"
#include "../../comm/channel.hpp"
