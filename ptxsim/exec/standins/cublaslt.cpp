// placeholder
#include "core.hpp"
