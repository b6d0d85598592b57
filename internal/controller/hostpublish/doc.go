// Package hostpublish publishes objects of a host cluster to the spaces of a ControlPlane.
//
// One reconcile is about one ControlPlane: what spec.publish names and somebody has annotated is
// copied to its system space, marked as the host's, and what is marked there and no longer wanted
// is deleted. From there package published copies it to every space. What is not marked is left
// alone. There is a watch of what a ControlPlane publishes, and of nothing else.
package hostpublish
