// Package node tests the operator on a cluster of one real node, whose pods are containers:
// "make e2e-node" builds its programs and runs the tests beside it. node.sh is the cluster.
package node
