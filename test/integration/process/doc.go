// Package process tests "tenantry up" as a process: what it leaves behind when it
// is killed or asked to end, and who else may use its directory meanwhile.
package process
