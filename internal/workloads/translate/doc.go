// Package translate makes of a pod in a space the pod of the host cluster that runs it, and of a Service,
// PersistentVolumeClaim, Ingress or HTTPRoute the host's, and says which of them a host must not get.
//
// It is pure: it asks nobody, and the same input gives the same pod. What becomes of each field of a PodSpec,
// ServiceSpec, PersistentVolumeClaimSpec, IngressSpec or HTTPRouteSpec, and of every type below it, is one table
// (fields.go). Both admission in the space, but for HTTPRoutes, and the translation itself go by it, and a field that
// is not in it is refused: what a later Kubernetes adds reaches no host before somebody has decided about it.
package translate
