// Package admission makes the admission plugins of upstream serve every space:
// one chain for all, in which each plugin reads the objects of the request's
// space and never those of another.
//
// The plugins are upstream's, unmodified, save for the one over upstream's quota
// evaluator (internal/server/quota) and those that are ours (packages spacepolicy and
// published). What each of them joins on decides how it gets there (modes.go):
//
//	unchanged  reads no object of a space; one instance
//	flattened  joins on namespaces; one instance, which is shown each request on
//	           flattened names and whose answers are made plain again
//	perSpace   joins on cluster-scoped objects; instances without state and
//	           goroutines, each with a view of one space (package view)
//	onDemand   webhooks and admission policies; an instance while a space has
//	           such objects
//
// A space that is idle, or has no webhook or policy, costs nothing here: no
// goroutine, informer or watch.
//
// The server calls Register before it adds flags and Apply before upstream's
// options configure it:
//
//	admission.Register(options.Admission)
//	...
//	err := admission.Apply(completed.Admission, admission.Config{...})
//	...  upstream's CreateConfig applies the options: plugins, order, flags,
//	     configuration file, metrics
//	informers.Start(stop)
//
// The configurations of the extension server and the aggregator are copies of
// that of the resource server and have the same chain.
//
// The package must not write objects of a space but through the flattened
// client, and must not let a request act on the system space because its own
// space is unknown: without a tenant in the context every request is refused.
package admission
