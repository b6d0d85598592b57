// Package metrics limits the series of upstream's metrics, registers collectors whose
// metrics are computed when they are read, and says which tenants have series of their own.
package metrics
