// Package statedir owns the directory in which `tenantry up` keeps everything:
// who may use it, and where in it things lie.
package statedir
