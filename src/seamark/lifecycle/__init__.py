"""Operations on connectors together with their offsets: create, delete, rename, relocate."""
