"""Facts from the structure of real pages: titles, definitions, links with the words around them, tables, versions and dates."""
