package translate

import (
	"bytes"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation"
)

// encodedCertificate is a certificate of version 3 as RFC 5280, section 4.1, has it, without unique identifiers, which
// nobody writes. What is raw here, x509.ParseCertificate reads to its end.
type encodedCertificate struct {
	Signed struct {
		Version   int `asn1:"explicit,tag:0"`
		Serial    *big.Int
		Algorithm encodedAlgorithm
		Issuer    []attributeSET
		Validity  struct{ NotBefore, NotAfter asn1.RawValue }
		Subject   []attributeSET
		Key       struct {
			Algorithm encodedAlgorithm
			Key       asn1.BitString
		}
		Extensions []encodedExtension `asn1:"optional,explicit,tag:3"`
	}
	Algorithm encodedAlgorithm
	Signature asn1.BitString
}

type encodedAlgorithm struct {
	Algorithm  asn1.ObjectIdentifier
	Parameters asn1.RawValue `asn1:"optional"`
}

// attributeSET has a name that says to encoding/asn1 what it is.
type attributeSET []struct {
	Type  asn1.ObjectIdentifier
	Value asn1.RawValue
}

type encodedExtension struct {
	ID       asn1.ObjectIdentifier
	Critical bool `asn1:"optional"`
	Value    []byte
}

// version3 is how certificates say that they have extensions.
const version3 = 2

// pssParameters are those of a signature by RSASSA-PSS (RFC 4055, section 3.1).
type pssParameters struct {
	Hash encodedAlgorithm `asn1:"explicit,tag:0"`
	Mask struct {
		Algorithm asn1.ObjectIdentifier
		Hash      encodedAlgorithm
	} `asn1:"explicit,tag:1"`
	Salt    int `asn1:"explicit,tag:2"`
	Trailer int `asn1:"optional,explicit,tag:3,default:1"`
}

// What is in extensions that libraries read when they load a certificate (RFC 5280, section 4.2.1).
type (
	basicConstraints struct {
		Authority bool `asn1:"optional"`
		Path      int  `asn1:"optional,default:-1"`
	}
	authorityKey struct {
		ID     []byte          `asn1:"optional,tag:0"`
		Issuer []asn1.RawValue `asn1:"optional,tag:1"`
		Serial *big.Int        `asn1:"optional,tag:2"`
	}
	distributionPoint struct {
		Name struct {
			Full []asn1.RawValue `asn1:"optional,tag:0"`
		} `asn1:"optional,tag:0"`
	}
	nameConstraints struct {
		Permitted []subtree `asn1:"optional,tag:0"`
		Excluded  []subtree `asn1:"optional,tag:1"`
	}
	subtree struct{ Base asn1.RawValue }
	access  struct {
		Method   asn1.ObjectIdentifier
		Location asn1.RawValue
	}
)

// What a name of a certificate begins with (RFC 5280, section 4.2.1.6): an address of mail, a host name, that of a
// directory, a URI, an IP address. There are others, which nobody needs here.
const (
	mailTag, hostTag, directoryTag, uriTag, addressTag = 0x81, 0x82, 0xa4, 0x86, 0x87
)

// extensions are what an extension has to be, by its id. What is not among them is refused, for a library may read it.
var extensions = map[string]func(value []byte) bool{
	"2.5.29.14": func(v []byte) bool { var id []byte; return isWritten(v, &id) && len(id) > 0 },
	"2.5.29.15": func(v []byte) bool {
		var usage asn1.BitString
		return isWritten(v, &usage) && usage.BitLength <= keyUsages && slices.ContainsFunc(usage.Bytes, func(b byte) bool { return b != 0 })
	},
	"2.5.29.17": func(v []byte) bool {
		var names []asn1.RawValue
		return isWritten(v, &names) && areNames(names, mailTag, hostTag, uriTag, addressTag)
	},
	"2.5.29.19": func(v []byte) bool { var c basicConstraints; return isWritten(v, &c) },
	"2.5.29.30": func(v []byte) bool {
		var c nameConstraints
		return isWritten(v, &c) && !slices.ContainsFunc(slices.Concat(c.Permitted, c.Excluded), func(s subtree) bool {
			return !areNames([]asn1.RawValue{s.Base}, mailTag, hostTag, directoryTag, uriTag, addressTag)
		})
	},
	"2.5.29.31": func(v []byte) bool {
		var points []distributionPoint
		return isWritten(v, &points) && !slices.ContainsFunc(points, func(p distributionPoint) bool { return !areNames(p.Name.Full, directoryTag, uriTag) })
	},
	"2.5.29.35": func(v []byte) bool {
		var key authorityKey
		return isWritten(v, &key) && (len(key.Issuer) == 0 || areNames(key.Issuer, directoryTag))
	},
	"2.5.29.37": func(v []byte) bool {
		var usages []asn1.ObjectIdentifier
		return isWritten(v, &usages) && len(usages) > 0
	},
	"1.3.6.1.5.5.7.1.1": func(v []byte) bool {
		var all []access
		return isWritten(v, &all) && !slices.ContainsFunc(all, func(a access) bool { return !isPublicURI(a.Location) })
	},
	"2.16.840.1.113730.1.1": func(v []byte) bool { var kind asn1.BitString; return isWritten(v, &kind) && kind.BitLength <= 8 }, // Netscape's
	// Nobody reads these when a certificate is loaded: attributes and times of the key, other names of the issuer,
	// policies, changed lists, where its subject is asked, what a server has to show, what European laws want, who the
	// organization is, and a comment.
	"2.5.29.9": isOpaque, "2.5.29.16": isOpaque, "2.5.29.18": isOpaque, "2.5.29.32": isOpaque, "2.5.29.33": isOpaque, "2.5.29.36": isOpaque,
	"2.5.29.46": isOpaque, "2.5.29.54": isOpaque, "1.3.6.1.5.5.7.1.3": isOpaque, "1.3.6.1.5.5.7.1.11": isOpaque,
	"1.3.6.1.5.5.7.1.24": isOpaque, "2.23.140.3.1": isOpaque, "2.16.840.1.113730.1.13": isOpaque,
}

// keyUsages is how many there are.
const keyUsages = 9

// privateExtensions are those that companies and logs of certificates define, which no library reads when it loads a
// certificate.
const privateExtensions = "1.3.6.1.4.1."

// isPublicURI reports whether a name is a URI of a web server of a name, at the usual port and without a query, as
// authorities write where they are asked. Controllers that ask them, to staple their answers, may still be led
// elsewhere: by what the name resolves to, and by redirects. Those of directories without a host mean the reader's own.
func isPublicURI(name asn1.RawValue) bool {
	if len(name.FullBytes) == 0 || name.FullBytes[0] != uriTag {
		return false
	}
	u, err := url.Parse(string(name.Bytes))
	switch {
	case err != nil || u.User != nil || u.Fragment != "":
		return false
	case u.Scheme == "ldap":
		return u.Host == ""
	default:
		dot := strings.LastIndexByte(u.Host, '.') // addresses are written in many ways, of which each ends in a number
		return (u.Scheme == "http" || u.Scheme == "https") && u.RawQuery == "" && !u.ForceQuery &&
			len(validation.IsDNS1123Subdomain(strings.ToLower(u.Host))) == 0 && dot > 0 && !unicode.IsDigit(rune(u.Host[dot+1])) && !isInternal(plainName(u.Host))
	}
}

// isInternal reports whether a name is one of a host cluster, of the machine itself, or of the metadata of a cloud.
func isInternal(name string) bool {
	return strings.HasSuffix(name, ".svc") || strings.Contains(name, ".svc.") || strings.HasSuffix(name, ".localhost") || name == "metadata.google.internal"
}

func isOpaque([]byte) bool { return true }

var errEncoding = errors.New("its tls.crt has a certificate that is not of version 3 and encoded as RFC 5280 has it, or has an unusual extension, which programs read in several ways; have it made anew")

// checkEncoding returns an error if other libraries than Go's may read something else in a certificate, or not load it:
// x509.ParseCertificate passes over what it does not know. So there must be nothing but what is written when all that
// is known is written again.
func checkEncoding(certificate *x509.Certificate) error {
	var c encodedCertificate
	if !isWritten(certificate.Raw, &c) || c.Signed.Version != version3 || !isSignature(c.Signed.Algorithm) || !isSignature(c.Algorithm) {
		return errEncoding
	}
	if key, err := x509.MarshalPKIXPublicKey(certificate.PublicKey); err != nil || !bytes.Equal(key, certificate.RawSubjectPublicKeyInfo) {
		return errEncoding
	}
	for _, e := range c.Signed.Extensions {
		id := e.ID.String()
		is, known := extensions[id]
		if !known && !strings.HasPrefix(id, privateExtensions) || known && !is(e.Value) {
			return fmt.Errorf("%w (extension %s)", errEncoding, id)
		}
	}
	return nil
}

// isWritten reads DER into what into points to, and reports whether that is all there is.
func isWritten(der []byte, into any) bool {
	if rest, err := asn1.Unmarshal(der, into); err != nil || len(rest) > 0 {
		return false
	}
	again, err := asn1.Marshal(reflect.ValueOf(into).Elem().Interface())
	return err == nil && bytes.Equal(again, der)
}

// isSignature reports whether an algorithm has no parameters, NULL, or those of PSS, of which Go reads the algorithms.
func isSignature(a encodedAlgorithm) bool {
	p := a.Parameters.FullBytes
	return len(p) == 0 || bytes.Equal(p, asn1.NullBytes) || isWritten(p, new(pssParameters))
}

// areNames reports whether there are names, and all of them of some kinds.
func areNames(names []asn1.RawValue, kinds ...byte) bool {
	for _, n := range names {
		if !slices.Contains(kinds, n.FullBytes[0]) || n.FullBytes[0] == directoryTag && !isDirectory(n.Bytes) {
			return false
		}
	}
	return len(names) > 0
}

// textTypes are the types of values in directories' names that libraries read alike: UTF8String, which is one,
// PrintableString and IA5String.
var textTypes = []byte{asn1.TagUTF8String, asn1.TagPrintableString, asn1.TagIA5String}

// isDirectory reports whether there is the name of a directory, of texts: Go reads those of the subject and the issuer
// alone.
func isDirectory(der []byte) bool {
	var name []attributeSET
	if !isWritten(der, &name) {
		return false
	}
	for _, set := range name {
		for _, a := range set {
			if !slices.Contains(textTypes, a.Value.FullBytes[0]) || !utf8.Valid(a.Value.Bytes) {
				return false
			}
		}
	}
	return true
}
