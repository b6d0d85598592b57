// Package suite runs Tenantry for a Ginkgo suite: what fails, fails the spec or the
// node that asked for it. A suite says only what is special about it.
//
// One environment per suite, see package env.
package suite
