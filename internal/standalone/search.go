package standalone

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"

	"k8s.io/kubernetes/pkg/serviceaccount"

	"github.com/tenantry/tenantry/internal/server"
)

// searchIssuer is that of tokens which are made nowhere.
const searchIssuer = "https://search.invalid"

// NewSearch makes a server of searches, of options with SearchOnly. It gets no keys of a server: where upstream wants
// one that makes tokens, there is one that nobody trusts.
func NewSearch(ctx context.Context, options *server.Options) (*server.SearchServer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	kube := options.Kube
	accounts := kube.Authentication.ServiceAccounts
	accounts.Issuers = []string{searchIssuer}
	if kube.ServiceAccountIssuer, err = serviceaccount.JWTTokenGenerator(searchIssuer, key); err != nil {
		return nil, fmt.Errorf("making what makes tokens: %w", err)
	}
	if accounts.ExternalPublicKeysGetter, err = serviceaccount.StaticPublicKeysGetter([]any{key.Public()}); err != nil {
		return nil, fmt.Errorf("making what verifies tokens: %w", err)
	}
	kube.ServiceClusterIPRanges = serviceRange
	kube.Etcd.StorageConfig.CompactionInterval = 0 // servers compact
	// It would ask a server that is never run what there is.
	kube.Admission.GenericAdmission.DisablePlugins = []string{"MutatingAdmissionPolicy"}
	return build(ctx, options, server.NewSearch)
}
