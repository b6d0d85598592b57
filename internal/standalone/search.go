package standalone

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/util/keyutil"

	"github.com/tenantry/tenantry/internal/server"
)

// NewSearch makes a server of searches, of options with SearchOnly. It gets no keys of a server: where upstream wants one that makes
// tokens, there is one that nobody trusts.
func NewSearch(ctx context.Context, options *server.Options) (*server.SearchServer, error) {
	dir, err := os.MkdirTemp("", "tenantry-search-")
	if err != nil {
		return nil, fmt.Errorf("creating a directory for a key: %w", err)
	}
	defer os.RemoveAll(dir)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	encoded, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return nil, fmt.Errorf("encoding a key: %w", err)
	}
	file := filepath.Join(dir, "key")
	if err := os.WriteFile(file, encoded, 0o600); err != nil {
		return nil, fmt.Errorf("writing a key: %w", err)
	}
	kube := options.Kube
	kube.ServiceAccountSigningKeyFile = file
	accounts := kube.Authentication.ServiceAccounts
	accounts.Issuers, accounts.KeyFiles = []string{"https://search.invalid"}, []string{file}
	kube.ServiceClusterIPRanges = serviceRange
	kube.Etcd.StorageConfig.CompactionInterval = 0 // servers compact
	// It would ask a server that is never run what there is.
	kube.Admission.GenericAdmission.DisablePlugins = []string{"MutatingAdmissionPolicy"}
	completed, err := options.Complete(ctx)
	if err != nil {
		return nil, err
	}
	if errs := completed.Validate(); len(errs) > 0 {
		return nil, utilerrors.NewAggregate(errs)
	}
	return server.NewSearch(ctx, completed)
}
