// Package user gives the users that Users name their rights: to create namespaces in their
// space, and every right in those that they have created.
//
// Which User has created a namespace stands in tenant.CreatedByLabel, which the server alone
// writes. What is made for a User carries its UID in tenant.UserLabel, which the server lets
// tenant.Publisher alone write; somebody who changes or deletes it finds it repaired. A
// User goes when all that was made for it is gone.
//
// There is one watch of each kind for all spaces, by these labels, so that spaces without
// Users cost nothing. Tenants take turns. How and why is in
// docs/adr/0023-users-are-named-in-their-space-and-namespaces-say-who-made-them.md.
package user
