// Package metrics limits the series of upstream's metrics, and registers collectors whose
// metrics are computed when they are read.
package metrics
