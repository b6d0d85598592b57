package tenant

import (
	"context"

	"k8s.io/apiserver/pkg/endpoints/request"
)

// What published objects and their copies carry. Only the Publisher writes copies.
const (
	// PublishedTrue, PublishedForce and PublishedFalse are the values of
	// PublishedAnnotation. With PublishedForce the object of the same name that a tenant
	// has already is replaced instead of kept. An object with PublishedFalse, or with any
	// other value that it has from before, is not published.
	PublishedTrue  = "true"
	PublishedForce = "force"
	PublishedFalse = "false"
	// PublishedCopy and PublishedNamespace are the values of PublishedCopyLabel.
	PublishedCopy      = "true"
	PublishedNamespace = "namespace"
	// PublishedDefinitionFinalizer holds such a definition until no space has objects
	// of it any more.
	PublishedDefinitionFinalizer = "tenantry.io/published-definition"
	// KeystoneProject and KeystoneBinding are the values of KeystoneLabel.
	KeystoneProject = "project"
	KeystoneBinding = "binding"
	// Publisher is the user of the system space who writes copies, and what is made of
	// Keystone and for Users. No credentials can have this name: the manager impersonates it.
	Publisher = "system:tenantry:publisher"
	// Syncer is the user of the system space who writes into spaces what a host cluster says of their
	// pods. No credentials can have this name: what runs the pods impersonates it.
	Syncer = "system:tenantry:syncer"
)

// IsPublished reports whether the annotations of an object of the system space
// say that it is published.
func IsPublished(annotations map[string]string) bool {
	value := annotations[PublishedAnnotation]
	return value == PublishedTrue || value == PublishedForce
}

// IsValidPublished reports whether the annotation has one of its values, or is not there.
func IsValidPublished(annotations map[string]string) bool {
	value, ok := annotations[PublishedAnnotation]
	return !ok || value == PublishedTrue || value == PublishedForce || value == PublishedFalse
}

// ByPublisher reports whether the request of ctx is the publisher's, in a tenant's space.
// The tenant's own webhooks and quotas do not apply to it.
func ByPublisher(ctx context.Context) bool {
	u, ok := request.UserFrom(ctx)
	if !ok || u.GetName() != Publisher {
		return false
	}
	user, err := UserTenant(ctx)
	if err != nil || user != System {
		return false
	}
	n, err := SpaceFrom(ctx)
	return err == nil && n.IsSpace()
}
