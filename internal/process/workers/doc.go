// Package workers measures how long workers of controllers work on the items of their queues.
//
// Upstream's controllers make their queues and workers themselves. What a queue tells of a worker that is done with an
// item, it tells the provider of the process's queue metrics alone. This package is that provider. It has the
// metrics of k8s.io/component-base/metrics/prometheus/workqueue, whose provider has no effect beside it: the first one
// counts, and packages are initialized in the order of their paths.
package workers
