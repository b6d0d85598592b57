// Package admission makes the admission plugins of upstream serve every space:
// one chain for all, in which each plugin reads the objects of the request's
// space and never those of another.
//
// The plugins are upstream's, unmodified, except for the one over upstream's quota
// evaluator (internal/server/quota) and our own (packages spacepolicy and published). The
// mode of each plugin depends on the objects that it joins (modes.go):
//
//	unchanged  reads no object of a space; one instance
//	flattened  joins on namespaces; one instance, which gets each request with
//	           flattened names and whose errors are made plain again
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
//	plugins, err := admission.Apply(completed.Admission, admission.Config{...})
//	...  upstream's CreateConfig applies the options: plugins, order, flags,
//	     configuration file, metrics
//	informers.Start(stop)
//
// The configurations of the extension server and the aggregator are copies of
// that of the resource server and have the same chain.
//
// The package writes objects of a space only through the flattened client, and never lets a
// request act on the system space because its own space is unknown: without a tenant in the
// context every request is refused.
package admission
