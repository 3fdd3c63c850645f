/*
 * The types that the build makes Rust of, for the debug information of this file. Nothing of it is
 * ever run.
 */
#include "types.h"
#include "shared.h"
#include "cases.h"

struct shared {
	struct row row;
	struct range range;
	struct test_case test_case;
	struct one_read one_read;
	struct result result;
	struct way_code way_code;
	struct way_case way_case;
	struct way_result way_result;
	enum shared_limits shared_limits;
	enum case_limits case_limits;
};

struct shared shared;
