package broker

import (
	"sluice/catalog"
	"sluice/kproto"
)

// The types of quota entities on the wire.
const (
	quotaUser   = "user"
	quotaClient = "client-id"
	quotaIP     = "ip"
)

// quotaPart is the part of an entity that a type names, or nil.
func quotaPart(e *catalog.QuotaEntity, typ string) *catalog.QuotaName {
	switch typ {
	case quotaUser:
		return &e.User
	case quotaClient:
		return &e.ClientID
	case quotaIP:
		return &e.IP
	}
	return nil
}

// quotaParts are the parts that an entity has, as they are answered.
func quotaParts(e *catalog.QuotaEntity, fn func(typ string, name *string)) {
	for _, typ := range []string{quotaUser, quotaClient, quotaIP} {
		switch n := quotaPart(e, typ); {
		case !n.Given:
		case n.Default:
			fn(typ, nil)
		default:
			fn(typ, &n.Name)
		}
	}
}

func badQuota(format string, args ...any) error {
	return kproto.Errorf(kproto.InvalidRequest, format, args...)
}
