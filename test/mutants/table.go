package main

import "slices"

// packages are those whose every condition is tried.
var packages = []fastPackage{
	{dir: "internal/tenant"},
	{dir: "internal/server/authentication/identity"},
	{dir: "internal/server/authentication/webtoken"},
	{dir: "internal/server/authentication/certificate"},
	{dir: "internal/server/egress"},
	{dir: "internal/server/filters", files: []string{"space.go", "tenant.go"}},
}

// equivalents are the mutants of packages that do the same as what they replace.
var equivalents = []equivalent{
	{"internal/server/authentication/certificate/authorities.go", "load", "never",
		"t != nil && bytes.Equal(t.clients, clients) && bytes.Equal(t.system, system)", 0, "it is read again, which takes longer"},
	{"internal/server/authentication/certificate/certificate.go", "userOf", "never", `subject.CommonName == ""`, 0, "upstream refuses it, too"},
	{"internal/server/authentication/certificate/certificate.go", "userOf", "never", "err != nil || !ok", 0, "upstream has no other reason"},
	{"internal/server/authentication/certificate/certificate.go", "userOf", "and/or", "err != nil || !ok", 0, "upstream has no other reason"},
	{"internal/server/authentication/webtoken/webtoken.go", "Parse", "never", "err != nil", 0, "what is not decoded has no claims"},
	{"internal/server/authentication/webtoken/webtoken.go", "Parse", "never", "err != nil", 1, "what is not decoded has no claims"},
	{"internal/server/egress/egress.go", "denied", "never", "err != nil", 0, "a machine always says which addresses it has"},
	{"internal/server/egress/patches.go", "checkPatch", "never", "!bounds.HasNumbers(patch) && !slices.ContainsFunc(operations, copies)", 0,
		"no quantity becomes slow by it; to look takes longer"},
	{"internal/server/filters/space.go", "admitToSpace", "never", "err != nil", 2, "UserTenant knows what From has found"},
	{"internal/tenant/path.go", "splitFullPath", "never", "next < 0", 0, "one segment is left, and a full path needs two"},
	{"internal/tenant/path.go", "splitFullPath", "never", "!ok", 0, "nothing is left then, as where the path ends"},
}

// table are the lines on which a defense rests, of all files table_*.go.
var table = slices.Concat(accessTable, admissionTable, bodiesTable, storageTable, controllersTable, keystoneTable, usersTable, hostTable, searchTable,
	workloadsTable, syncerTable, servicesTable, routesTable, networkTable, podsTable)
