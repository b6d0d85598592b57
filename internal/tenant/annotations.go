package tenant

import "strings"

// Keys of annotations, labels, audit annotations and extras of users. Ours are below
// tenantry.io/. They were below multi-tenancy.k8s.io/, where PublishedAnnotation and
// TokenClaim still are. Why, and what is done about the former names, is in
// docs/adr/0017-keys-are-below-tenantry-io.md.
const (
	// Annotation carries the tenant of a stored object. The server sets it on
	// every write in a space and removes it in the system space; a value sent
	// by a client is never used.
	Annotation = "tenantry.io/tenant"
	// UserExtraKey is the key of a user's extra that carries its tenant. Identity
	// providers name the tenant under it, too; only what the server's own authentication
	// has accepted of that stays.
	UserExtraKey = "tenantry.io/tenant"
	// SpaceExtraKey is the key of a user's extra by which authorization webhooks learn in
	// which space the user acts. TenantUIDExtraKey and SpaceUIDExtraKey are those of the
	// UIDs of the user's tenant and of the tenant whose space it is, which tell them from
	// others that have had their names. The system tenant has none.
	SpaceExtraKey     = "tenantry.io/space"
	TenantUIDExtraKey = "tenantry.io/tenant-uid"
	SpaceUIDExtraKey  = "tenantry.io/space-uid"
	// TokenClaim is the claim of a service account token that names its tenant. Signed
	// tokens are older than the server that reads them, so it keeps its name.
	TokenClaim = "multi-tenancy.k8s.io/tenant"

	// PublishedAnnotation marks an object of the system space that is copied to
	// every space.
	PublishedAnnotation = "multi-tenancy.k8s.io/published"
	// PublishedCopyLabel marks copies in spaces, with the value PublishedCopy, and
	// a tenant's own namespaces that hold copies, with PublishedNamespace.
	PublishedCopyLabel = "tenantry.io/published-copy"
	// PublishedFromAnnotation says of which object, and of what content, an object
	// is a copy: its UID and a hash, "UID/HASH".
	PublishedFromAnnotation = "tenantry.io/published-from"
	// PublishedDefinitionLabel marks definitions of the system space that are or were
	// published, with the value PublishedCopy: spaces may have objects of them.
	PublishedDefinitionLabel = "tenantry.io/published-definition"
	// OwnDefinitionAnnotation, with the value "true", says in an update of a published
	// definition that the space is to have its own, which begins as the published one.
	OwnDefinitionAnnotation = "tenantry.io/own-definition"

	// KeystoneLabel marks what is made of Keystone in spaces: KeystoneProject and
	// KeystoneBinding are its values. KeystoneIDAnnotation has the id of a namespace's project,
	// and KeystoneGoneAnnotation when that had first gone. Only the Publisher writes them.
	KeystoneLabel          = "tenantry.io/keystone"
	KeystoneIDAnnotation   = "tenantry.io/keystone-id"
	KeystoneGoneAnnotation = "tenantry.io/keystone-gone-since"
	// KeystoneDisabledAnnotation is "true" on namespaces whose project is known to be disabled.
	KeystoneDisabledAnnotation = "tenantry.io/keystone-disabled"

	// CreatorAnnotation says on a namespace of a space who has created it, as a Creator in
	// JSON; it is on none of the platform's. If that was by a User, CreatedByLabel is the
	// User's UID. The server sets both, and nobody changes them.
	CreatorAnnotation = "tenantry.io/creator"
	CreatedByLabel    = "tenantry.io/created-by"
	// UserLabel marks, with the UID of a User, what is made for it. Only the Publisher writes it.
	UserLabel = "tenantry.io/user"

	// ScopeAnnotation and SelectorAnnotation say where the rules of a ClusterRole of the
	// system space hold, see package rbac.
	ScopeAnnotation    = "tenantry.io/scope"
	SelectorAnnotation = "tenantry.io/tenant-selector"

	// AuditUserTenant is the annotation of audit events with the tenant of the
	// credentials, which outlives impersonation. AuditTenant is that with the tenant whose
	// space the request is about: the one that its URL names, even if the request was
	// refused, or the user's own.
	AuditUserTenant = "tenantry.io/user-tenant"
	AuditTenant     = "tenantry.io/tenant"
	// AuditUnavailable is the annotation of audit events of requests that were answered with
	// 503 because their credentials could not be verified. The events themselves have 401.
	AuditUnavailable = "tenantry.io/authentication-unavailable"
)

const domain, formerDomain = "tenantry.io", "multi-tenancy.k8s.io"

// Former returns the name that a key below tenantry.io/ had before.
func Former(key string) string {
	return formerDomain + "/" + strings.TrimPrefix(key, domain+"/")
}

// IsOurs reports whether a key of a label or annotation is the platform's, by its present or
// its former name.
func IsOurs(key string) bool {
	of, _, _ := strings.Cut(key, "/")
	return of == domain || strings.HasSuffix(of, "."+domain) || of == formerDomain
}

// WithoutOurs returns a copy of labels or annotations without those of the platform.
func WithoutOurs(all map[string]string) map[string]string {
	others := make(map[string]string, len(all))
	for key, value := range all {
		if !IsOurs(key) {
			others[key] = value
		}
	}
	return others
}

// formerUserExtraKey is asked for by every request without tenant.
var formerUserExtraKey = Former(UserExtraKey)
