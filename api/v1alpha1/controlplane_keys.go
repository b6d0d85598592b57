package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ControlPlaneKeys is what is known of a Secret of keys.
//
// +k8s:openapi-gen=false
type ControlPlaneKeys struct {
	// secretName is the name of the Secret.
	// +required
	SecretName string `json:"secretName"`
	// digest is that of what is in it. It tells nothing of the keys.
	// +required
	Digest string `json:"digest"`
}

// ControlPlaneTokenKey is what is known of a key of tokens of service accounts.
//
// +k8s:openapi-gen=false
type ControlPlaneTokenKey struct {
	// secretName is the Secret that has the private key in service-account.key. It is needed until
	// the key signs no more.
	// +required
	SecretName string `json:"secretName"`
	// publicKey verifies tokens, in PEM.
	// +required
	PublicKey string `json:"publicKey"`
	// publishedAt is since when servers are given the key to verify by.
	// +optional
	PublishedAt *metav1.Time `json:"publishedAt,omitempty"`
	// signsFrom is since when servers are given the key to sign by.
	// +optional
	SignsFrom *metav1.Time `json:"signsFrom,omitempty"`
	// longestLifetime is the longest that a token was issued for by this key.
	// +optional
	LongestLifetime metav1.Duration `json:"longestLifetime,omitzero"`
	// verifiesUntil is until when servers verify by a key that signs no more.
	// +optional
	VerifiesUntil *metav1.Time `json:"verifiesUntil,omitempty"`
}

// ControlPlaneCopy is what is known of a Secret that is a copy of what others have written.
//
// +k8s:openapi-gen=false
type ControlPlaneCopy struct {
	// secretName is the name of the Secret.
	// +required
	SecretName string `json:"secretName"`
	// digest is that of what is in it, by a key that the operator alone has.
	// +required
	Digest string `json:"digest"`
}

const (
	// AdoptKeysAnnotation is on ControlPlanes whose Secrets of keys were there before, of an earlier
	// ControlPlane of the name or from a backup. It has the digest of the authorities, whose key proves
	// the others, and of each Secret that it does not prove, as the condition Degraded shows them, with
	// commas between.
	AdoptKeysAnnotation = "tenantry.io/adopt-keys"
	// AdoptOldTokenKeysAnnotation with the value "true", beside AdoptKeysAnnotation, has tokens of service
	// accounts verified also by the keys before the newest, for a year. Without it they are refused.
	AdoptOldTokenKeysAnnotation = "tenantry.io/adopt-old-token-keys"
)
