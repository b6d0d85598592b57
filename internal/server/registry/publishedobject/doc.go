// Package publishedobject stores the reports of the controller of published
// objects: one for each, in the system space alone. The server makes nothing of
// them.
package publishedobject
