// Package harness is what the benchmarks and the long tests have in common: they run
// servers in processes of their own and read what these take, create tenants, and do the
// same many times at once.
package harness
