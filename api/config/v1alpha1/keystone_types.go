package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// KeystoneTrusts says what becomes of tokens that are made by a trust with impersonation.
// +enum
type KeystoneTrusts string

const (
	// KeystoneTrustsRefuse refuses them.
	KeystoneTrustsRefuse KeystoneTrusts = "Refuse"
	// KeystoneTrustsAccept accepts them as the user who gave the trust.
	KeystoneTrustsAccept KeystoneTrusts = "Accept"
)

// KeystonePasswords says whether passwords of Keystone's users authenticate.
// +enum
type KeystonePasswords string

const (
	// KeystonePasswordsRefuse takes tokens alone.
	KeystonePasswordsRefuse KeystonePasswords = "Refuse"
	// KeystonePasswordsAccept takes a name and a password by HTTP's basic authentication, too.
	KeystonePasswordsAccept KeystonePasswords = "Accept"
)

// +kubebuilder:object:root=true

// KeystoneConfiguration says which Keystone vouches for users, and how the server asks it. The
// file, and those that it names, are read again when they change. A relative path begins at
// the directory of the file.
type KeystoneConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// url is that of the identity service, version 3: https://keystone.example.com/v3. The end
	// /v3 may be left out. It is used instead of the auth_url of the cloud. Without TLS it must be
	// a loopback address.
	URL string `json:"url"`
	// name is how Tenants name this Keystone in status.keystone. Defaults to "default".
	// +optional
	Name string `json:"name,omitempty"`
	// certificateAuthorityFile is a bundle of the authorities that sign the certificate of
	// Keystone. Defaults to the system's.
	// +optional
	CertificateAuthorityFile string `json:"certificateAuthorityFile,omitempty"`
	// cloudsFile is a clouds.yaml with the account that asks Keystone, by a password or an
	// application credential. A secure.yaml beside it is read too. The role reader on the
	// system suffices.
	CloudsFile string `json:"cloudsFile"`
	// cloud is the name of the account in cloudsFile.
	Cloud string `json:"cloud"`
	// requestTimeout is how long one answer of Keystone is waited for, from 1s to 30s and at most
	// cacheTTL. Defaults to 10s, or cacheTTL if that is less.
	// +optional
	RequestTimeout metav1.Duration `json:"requestTimeout,omitempty"`
	// cacheTTL is for how long a token is taken as valid without asking again, from 1s to 1h: a
	// token that is revoked works that long. Defaults to 60s.
	// +optional
	CacheTTL metav1.Duration `json:"cacheTTL,omitempty"`
	// negativeCacheTTL is for how long a token is taken as not valid without asking again, from
	// 1s to cacheTTL. Defaults to 10s, or cacheTTL if that is less.
	// +optional
	NegativeCacheTTL metav1.Duration `json:"negativeCacheTTL,omitempty"`
	// trusts is what becomes of tokens by a trust that impersonates the user who gave it: Refuse
	// or Accept. Defaults to Refuse.
	// +optional
	Trusts KeystoneTrusts `json:"trusts,omitempty"`
	// passwords is whether users of a Tenant's domain log in with their names and passwords, at
	// the URL of the space: Refuse or Accept. The server then sees the passwords. Defaults to
	// Refuse.
	// +optional
	Passwords KeystonePasswords `json:"passwords,omitempty"`
}
