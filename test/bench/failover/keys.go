package main

import (
	"bytes"
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/keyutil"

	"github.com/tenantry/tenantry/internal/pki"
	"github.com/tenantry/tenantry/test/harness"
)

// publicKeys returns the public key of the one that signs tokens.
func publicKeys(dir string) []byte {
	public, err := publicKey(filepath.Join(dir, "service-account.key"))
	if err != nil {
		panic(err) // pki.Ensure has made it
	}
	return public
}

func publicKey(file string) ([]byte, error) {
	parsed, err := keyutil.PrivateKeyFromFile(file)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKIXPublicKey(parsed.(crypto.Signer).Public())
	return pem.EncodeToMemory(&pem.Block{Type: keyutil.PublicKeyBlockType, Bytes: der}), err
}

// withTokens returns configs of service accounts that may write in the spaces of others.
func withTokens(ctx context.Context, spaces []*rest.Config) ([]*rest.Config, error) {
	var all []*rest.Config
	for _, config := range spaces {
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return nil, err
		}
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "writer"}}
		binding := &rbacv1.RoleBinding{
			ObjectMeta: account.ObjectMeta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account.Name, Namespace: metav1.NamespaceDefault}},
		}
		_, err = client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Create(ctx, account, metav1.CreateOptions{})
		_, bindErr := client.RbacV1().RoleBindings(metav1.NamespaceDefault).Create(ctx, binding, metav1.CreateOptions{})
		token, tokenErr := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).CreateToken(ctx, account.Name,
			&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(24 * 3600))}}, metav1.CreateOptions{})
		if err := errors.Join(err, bindErr, tokenErr); err != nil {
			return nil, err
		}
		of := rest.AnonymousClientConfig(config)
		of.BearerToken, of.QPS = token.Status.Token, -1
		all = append(all, of)
	}
	return all, nil
}

// renewCertificate gives servers another certificate, and waits until they have taken it over.
func (c *cluster) renewCertificate(ctx context.Context, l *load) error {
	cert, key, err := c.keys.ServerCA.Issue(pki.ServingTemplate(loopback))
	if err != nil {
		return err
	}
	if err := errors.Join(c.write("server.key", key), c.write("server.crt", cert)); err != nil {
		return err
	}
	block, _ := pem.Decode(cert)
	for _, s := range c.servers {
		if err := harness.Until(ctx, startTimeout, "the server at "+s.address+" has another certificate", func(context.Context) error {
			connection, err := tls.Dial("tcp", s.address, &tls.Config{InsecureSkipVerify: true}) // it is compared with the one that was written
			if err != nil {
				return err
			}
			defer connection.Close()
			if !bytes.Equal(connection.ConnectionState().PeerCertificates[0].Raw, block.Bytes) {
				return errors.New("it has the one before")
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return l.each(ctx, 20)
}

// rotateKey gives servers another key for tokens: first to verify by, then to sign by. The one before
// verifies on.
func (c *cluster) rotateKey(ctx context.Context, l *load) error {
	before := publicKeys(c.pki())
	next, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		return err
	}
	file := filepath.Join(c.dir, "next.key")
	if err := os.WriteFile(file, next, 0o600); err != nil {
		return err
	}
	public, err := publicKey(file)
	if err != nil {
		return err
	}
	if err := errors.Join(c.write("service-account.pub", append(before, public...)), c.published(ctx, 2)); err != nil {
		return err
	}
	if err := c.write("service-account.key", next); err != nil {
		return err
	}
	return l.each(ctx, 20)
}

// published waits until servers verify tokens by so many keys.
func (c *cluster) published(ctx context.Context, n int) error {
	for _, s := range c.servers {
		client, err := c.client(s)
		if err != nil {
			return err
		}
		if err := harness.Until(ctx, startTimeout, "the server at "+s.address+" verifies by the next key", func(ctx context.Context) error {
			keys, err := client.Discovery().RESTClient().Get().AbsPath("/openid/v1/jwks").DoRaw(ctx)
			if err == nil && bytes.Count(keys, []byte(`"kid"`)) != n {
				err = errors.New("it has other keys")
			}
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// write replaces a file of what servers mount.
func (c *cluster) write(name string, content []byte) error {
	return os.WriteFile(filepath.Join(c.pki(), name), content, 0o600)
}
