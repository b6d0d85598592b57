// Package kubecontrollers runs the upstream controllers of Kubernetes, unchanged
// and one instance each, for the system space and every tenant's space at once.
//
// They work on the flattened view (package spaces), in which no two spaces share
// a namespace or an object. What that view alone does not make safe is made so
// here:
//
//   - ClusterRole aggregation selects roles by label across a whole cluster; it
//     is shown one space at a time (aggregation.go).
//   - The garbage collector joins by UID and looks owners up without knowing
//     their space; it is shown identities that carry the space (garbage.go).
//   - Numbers of tenants' objects that they multiply are bounded when they are written; what
//     was stored before is not shown (multiplied.go).
//   - Listers parse all selectors of a namespace for each event of a pod, while the events of
//     other spaces wait; theirs are parsed when they are written (selectors.go).
//   - Workers are measured. Of a tenant for which they have worked long, few objects are worked on at a time, and the
//     others are parked (fairinformer.go, debts.go, fairlisters.go). Handlers of events are exempt (exempted.go).
//   - What a worker has failed with comes again, whoever else's objects fail (retries.go).
//   - The controller of CronJobs calculates times only as far back as it has to (cronjobs_bounded.go).
//
// Queues and metrics have fixed names. An idle tenant costs no goroutine and no
// request.
package kubecontrollers
